// The weights of a model as they are now, one after the other and without the state that they come
// from: to predict many rows. Weights that were never learned are there as well, as zeros.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "avx2.hpp"
#include "coordinates.hpp"
#include "expand.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "pairs.hpp"
#include "row.hpp"
#include "separation.hpp"

namespace pqr {

class Frozen {
 public:
  static constexpr std::size_t most = 0xFFFFFFFFu;  // weights

  // Features from `features` on have no weight.
  Frozen(std::size_t features, std::shared_ptr<const Separation> separation, const ExpandRule& rule,
         double bias, bool avx2)
      : separation_(std::move(separation)),
        rule_(rule),
        bias_(bias),
        avx2_(avx2),
        nothing_(static_cast<std::uint32_t>(features)),
        pairs_(nothing_ + 1),
        weights_(size(features, separation_->order())) {
    std::fill_n(linear(), pairs_, 0.0f);
  }

  static std::size_t size(std::size_t features, std::size_t order) {
    return features + 1 + row_start(order);
  }

  // Of all features that have weights, zeros at first, and of all interactions of rank j, the
  // shared one first, all of which are to be written.
  float* linear() { return weights_.data(); }
  float* interactions(std::uint32_t j) { return weights_.data() + pairs_ + row_start(j); }

  // As Model::margin: how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const {
    return separation_->order() == 0 ? margin_linear(batch, margins) : margin_all(batch, margins);
  }

 private:
  static constexpr std::size_t ranks_ahead = 4;
  static constexpr std::size_t linear_ahead = 8;
  static constexpr std::size_t few_ranks = 1024;  // whose pairs are always at hand

  using Lanes = Vector<float, lanes>;

  struct Planned {
    Expansion expansion;
    std::size_t padded = 0;
    std::size_t fetched = 0;            // so many of them before their turn
    std::vector<std::uint32_t> places;  // in weights_
    std::vector<float> x;
  };

  std::shared_ptr<const Separation> separation_;
  ExpandRule rule_;
  double bias_;
  bool avx2_;
  std::uint32_t nothing_, pairs_;  // where in weights_ they are
  Buffer<float> weights_;

  // w x of `lanes` coordinates. `place` says where in weights_ each is.
  template <class Place>
  PQR_ALWAYS_INLINE Lanes products(Place place, const float* x) const {
    const auto w = [place, weights = weights_.data()](std::size_t l)
                       PQR_ALWAYS_INLINE { return weights[place(l)]; };
    Lanes values;
    std::memcpy(&values, x, sizeof values);
    return Lanes{w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7)} * values;
  }

  // There is nothing to plan: weights go straight from where a row's indices say into vectors.
  std::size_t margin_linear(const Rows& batch, double* margins) const {
    return vectorised(avx2_, [=](auto) PQR_ALWAYS_INLINE {
      const auto place = [nothing = nothing_](std::uint32_t index)
                             PQR_ALWAYS_INLINE { return std::min(index, nothing); };
      for (std::size_t r = 0; r < batch.size; ++r) {
        if (r + linear_ahead < batch.size) {
          const Row coming = batch[r + linear_ahead];
          for (std::size_t i = 0; i < coming.size; ++i) {
            fetch(weights_.data() + place(coming.indices[i]));
          }
        }
        const Row row = batch[r];
        Lanes part = {};
        const auto add = [&](const std::uint32_t* indices, const float* x) PQR_ALWAYS_INLINE {
          part += products([=](std::size_t l) PQR_ALWAYS_INLINE { return place(indices[l]); }, x);
        };
        const std::size_t whole = row.size / lanes * lanes;
        for (std::size_t i = 0; i < whole; i += lanes) add(row.indices + i, row.values + i);
        if (whole < row.size) {
          std::uint32_t indices[lanes];
          float x[lanes] = {};
          std::fill_n(indices, lanes, nothing_);
          for (std::size_t i = whole; i < row.size; ++i) {
            indices[i - whole] = row.indices[i];
            x[i - whole] = row.values[i];
          }
          add(indices, x);
        }
        margins[r] = bias_ + sum_of_parts(part);
        if (!std::isfinite(margins[r])) return r;
      }
      return batch.size;
    });
  }

  // The weights of a row are asked for while the row before it is summed up.
  std::size_t margin_all(const Rows& batch, double* margins) const {
    return vectorised(avx2_, [=](auto) PQR_ALWAYS_INLINE {
      std::array<Planned, 2> planned;
      plan(batch, 0, planned[0]);
      for (std::size_t r = 0; r < batch.size; ++r) {
        Planned& coming = planned[(r + 1) % 2];
        plan(batch, r + 1, coming);
        margins[r] = bias_ + sum(planned[r % 2], coming);
        if (!std::isfinite(margins[r])) return r;
      }
      return batch.size;
    });
  }

  // The coordinates of a row, in the order of Model::fill. Nothing of one that is not there.
  PQR_ALWAYS_INLINE void plan(const Rows& batch, std::size_t r, Planned& planned) const {
    planned.padded = planned.fetched = 0;
    if (r + ranks_ahead < batch.size) separation_->prefetch(batch[r + ranks_ahead]);
    if (r >= batch.size) return;
    const Row row = batch[r];
    Expansion& e = planned.expansion;
    e.expand(row, *separation_, rule_);
    const std::size_t size = row.size + e.size();
    planned.padded = with_room(size) - lanes;
    if (planned.x.size() < with_room(size)) {
      planned.places.resize(with_room(size));
      planned.x.resize(with_room(size));
    }
    std::uint32_t* const places = planned.places.data();
    float* const x = planned.x.data();
    for (std::size_t i = 0; i < row.size; ++i) places[i] = std::min(row.indices[i], nothing_);
    copy(row.values, row.size, x);
    if (e.high > 0) e.fill(pairs_, places + row.size, x + row.size);
    std::fill_n(places + size, lanes, nothing_);
    std::fill_n(x + size, lanes, 0.0f);
    const bool few = separation_->order() <= few_ranks;
    planned.fetched = few ? with_room(row.size) - lanes : planned.padded;
  }

  // The same sum as that of weigh_slots(), of weights that go straight into a vector.
  PQR_ALWAYS_INLINE double sum(const Planned& planned, const Planned& coming) const {
    Lanes part = {};
    // In registers: for all that a compiler knows, what is asked for may be changed.
    const float* const weights = weights_.data();
    const std::uint32_t* const next = coming.places.data();
    const std::size_t all = coming.fetched;
    std::size_t fetched = 0;
    for (std::size_t i = 0; i < planned.padded; i += lanes) {
      if (fetched < all) {
        for (std::size_t l = 0; l < lanes; ++l) fetch(weights + next[fetched + l]);
        fetched += lanes;
      }
      const std::uint32_t* places = planned.places.data() + i;
      part += products([=](std::size_t l) PQR_ALWAYS_INLINE { return places[l]; },
                       planned.x.data() + i);
    }
    for (; fetched < all; ++fetched) fetch(weights + next[fetched]);
    return sum_of_parts(part);
  }
};

}  // namespace pqr
