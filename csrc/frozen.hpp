// A copy of all weights of a model, in one array and without the state that they are computed from:
// to predict many rows (decision 9). Weights that were never learned are zeros.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "expand.hpp"
#include "lanes.hpp"
#include "pages.hpp"
#include "pairs.hpp"
#include "prefetch.hpp"
#include "row.hpp"
#include "separation.hpp"

namespace pqr {

class Frozen {
 public:
  static constexpr std::size_t most = 0xFFFFFFFFu;  // weights, whose numbers have 32 bits

  // Features from `features` on have no weight.
  Frozen(std::size_t features, std::shared_ptr<const Separation> separation, const ExpandRule& rule,
         double bias, bool avx2)
      : separation_(std::move(separation)),
        rule_(rule),
        bias_(bias),
        avx2_(avx2),
        nothing_(static_cast<std::uint32_t>(features)),
        weights_(size(features, separation_->order()), 0) {
    weights_.prefer_large(0, size(features, separation_->order()));
  }

  static std::size_t size(std::size_t features, std::size_t order) {
    return features + 1 + span_start(order);
  }

  // Zeros, to be filled in: the weights of all features, and of span j.
  float* linear() { return weights_.data(); }
  float* span(std::uint32_t j) { return weights_.data() + first_pair() + span_start(j); }

  // As Model::margin: how many rows have a finite margin, from the first one on. The weights of a
  // row are prefetched while the row before it is summed up.
  std::size_t margin(const Rows& batch, double* margins) const {
    return vectorised(avx2_, [=](auto) PQR_ALWAYS_INLINE {
      Planned planned[2];
      plan(batch, 0, planned[0]);
      for (std::size_t r = 0; r < batch.size; ++r) {
        Planned& next = planned[(r + 1) % 2];
        plan(batch, r + 1, next);
        margins[r] = bias_ + sum(planned[r % 2], next);
        if (planned[r % 2].refused || !std::isfinite(margins[r])) return r;
      }
      return batch.size;
    });
  }

 private:
  static constexpr std::size_t ranks_ahead = 4;  // rows: a microsecond, longer than memory takes

  std::shared_ptr<const Separation> separation_;
  ExpandRule rule_;
  double bias_;
  bool avx2_;
  std::uint32_t nothing_;  // the number of a weight that is always 0
  Stretch<float> weights_;

  std::uint32_t first_pair() const { return nothing_ + 1; }

  // A row beyond the last one has no coordinates.
  PQR_ALWAYS_INLINE void plan(const Rows& batch, std::size_t r, Planned& planned) const {
    if (r + ranks_ahead < batch.size) separation_->prefetch(batch[r + ranks_ahead]);
    if (r >= batch.size) {
      planned.take({nullptr, nullptr, 0}, {});
    } else if (separation_->order() == 0) {
      planned.take(batch[r], {});
    } else {
      planned.split(batch[r], *separation_, false);
    }
    planned.list(rule_, nothing_, first_pair());
  }

  // The same sum as that of weigh_slots().
  PQR_ALWAYS_INLINE double sum(const Planned& planned, const Planned& next) const {
    using Lanes = Vector<float, lanes>;
    // Local copies stay in registers: to the compiler, a prefetch might change the members.
    const float* const weights = weights_.data();
    const std::uint32_t* const coming = next.coordinates.numbers.data();
    const std::size_t all = next.coordinates.padded();
    std::size_t fetched = 0;
    Lanes sums = {};
    for (std::size_t i = 0; i < planned.coordinates.padded(); i += lanes) {
      if (fetched < all) {
        for (std::size_t l = 0; l < lanes; ++l) fetch(weights + coming[fetched + l]);
        fetched += lanes;
      }
      const std::uint32_t* const n = planned.coordinates.numbers.data() + i;
      sums += Lanes{weights[n[0]], weights[n[1]], weights[n[2]], weights[n[3]],
                    weights[n[4]], weights[n[5]], weights[n[6]], weights[n[7]]} *
              read_as<Lanes>(planned.coordinates.x.data() + i);
    }
    for (; fetched < all; ++fetched) fetch(weights + coming[fetched]);
    return sum_of_lanes(sums);
  }
};

}  // namespace pqr
