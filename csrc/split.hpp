// Splits rows into their high and low features: one when it is needed, or many in advance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "avx2.hpp"
#include "order.hpp"
#include "row.hpp"
#include "separation.hpp"

namespace pqr {

class Splitter {
 public:
  // More ranks and values than a row has features: fill() reads them.
  static constexpr std::size_t room = 7;

  // `ranks` and `values` have room for all features of the row.
  PQR_ALWAYS_INLINE void split(const Row& row, const Separation& separation, bool low_exists,
                               std::uint32_t* ranks, float* values, Split& split) {
    if (found_.size() < row.size) {
      found_.resize(row.size);
      amounts_.resize(row.size);
    }
    std::uint32_t* const found = found_.data();
    float* const amounts = amounts_.data();
    std::size_t high = 0;
    double low = 0.0;
    const auto find = [&](auto rank_of) PQR_ALWAYS_INLINE {
      for (std::size_t i = 0; i < row.size; ++i) {
        const std::uint32_t rank = rank_of(row.indices[i]);
        const float value = row.values[i];
        const bool is_high = rank != Separation::low;
        found[high] = rank;
        amounts[high] = value;
        high += is_high;
        low += is_high ? 0.0f : value;
      }
    };
    if (const std::uint32_t* above = separation.above(row)) {
      find([above](std::uint32_t feature) PQR_ALWAYS_INLINE { return above[feature] - 1; });
    } else {
      find([&](std::uint32_t feature) PQR_ALWAYS_INLINE { return separation.rank(feature); });
    }
    sort(high, ranks, values);
    split.ranks = ranks;
    split.values = values;
    split.high = high;
    split.low_sum = low_exists ? static_cast<float>(low) : 0.0f;
    split.ignored = low_exists ? 0 : row.size - high;
  }

 private:
  std::vector<std::uint32_t> found_;
  std::vector<float> amounts_;
  std::vector<std::pair<std::uint32_t, float>> many_;

  PQR_ALWAYS_INLINE void sort(std::size_t high, std::uint32_t* ranks, float* values) {
    if (high > few_keys) return sort_many(high, ranks, values);
    std::uint32_t places[few_keys];
    places_in_order(found_.data(), high, places);
    for (std::size_t i = 0; i < high; ++i) {
      ranks[places[i]] = found_[i];
      values[places[i]] = amounts_[i];
    }
  }

  [[gnu::noinline]] void sort_many(std::size_t high, std::uint32_t* ranks, float* values) {
    many_.clear();
    for (std::size_t i = 0; i < high; ++i) many_.emplace_back(found_[i], amounts_[i]);
    std::sort(many_.begin(), many_.end());
    for (std::size_t i = 0; i < high; ++i) {
      ranks[i] = many_[i].first;
      values[i] = many_[i].second;
    }
  }
};

// Many rows, split before their turn, perhaps by another thread than the one that learns them.
class Splits {
 public:
  Splits(const Rows& rows, const Separation& separation) : order_(separation.order()) {
    constexpr std::size_t ranks_ahead = 8;
    const auto entries = static_cast<std::size_t>(rows.indptr[rows.size] - rows.indptr[0]);
    ranks_.reset(new std::uint32_t[entries + Splitter::room]);
    values_.reset(new float[entries + Splitter::room]);
    std::fill_n(&ranks_[entries], Splitter::room, 0u);
    std::fill_n(&values_[entries], Splitter::room, 0.0f);
    rows_.resize(rows.size);
    Splitter splitter;
    std::size_t first = 0;
    for (std::size_t r = 0; r < rows.size; ++r) {
      if (r + ranks_ahead < rows.size) separation.prefetch(rows[r + ranks_ahead]);
      splitter.split(rows[r], separation, true, &ranks_[first], &values_[first], rows_[r]);
      first += rows_[r].high;
    }
  }

  // Whether they can be of these rows, by this order: then no rank is out of range.
  bool fit(const Rows& rows, std::size_t order) const {
    return rows_.size() == rows.size && order_ == order;
  }
  const Split* data() const { return rows_.data(); }

 private:
  std::size_t order_;
  std::unique_ptr<std::uint32_t[]> ranks_;  // of all rows, one after the other
  std::unique_ptr<float[]> values_;
  std::vector<Split> rows_;
};

}  // namespace pqr
