// Splits rows into their high and low features: one when it is needed, or many in advance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
    std::size_t high = 0, ignored = 0;
    double low = 0.0;
    found_.resize(row.size);
    for (std::size_t i = 0; i < row.size; ++i) {
      const std::uint32_t rank = separation.rank(row.indices[i]);
      if (rank != Separation::low) {
        found_[high++] = {rank, row.values[i]};
      } else if (low_exists) {
        low += row.values[i];
      } else {
        ++ignored;
      }
    }
    sort(high, ranks, values);
    split.ranks = ranks;
    split.values = values;
    split.high = high;
    split.low_sum = static_cast<float>(low);
    split.ignored = ignored;
  }

 private:
  struct Found {
    std::uint32_t rank;
    float value;
  };
  std::vector<Found> found_;

  PQR_ALWAYS_INLINE void sort(std::size_t high, std::uint32_t* ranks, float* values) {
    const auto put = [&](std::size_t at, const Found& found) {
      ranks[at] = found.rank;
      values[at] = found.value;
    };
    if (high > few_keys) {
      std::sort(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(high),
                [](const Found& a, const Found& b) { return a.rank < b.rank; });
      for (std::size_t i = 0; i < high; ++i) put(i, found_[i]);
      return;
    }
    std::uint32_t keys[few_keys], places[few_keys];
    for (std::size_t i = 0; i < high; ++i) keys[i] = found_[i].rank;
    places_in_order(keys, high, places);
    for (std::size_t i = 0; i < high; ++i) put(places[i], found_[i]);
  }
};

// Many rows, split before their turn, perhaps by another thread than the one that learns them.
class Splits {
 public:
  Splits(const Rows& rows, const Separation& separation) : order_(separation.order()) {
    constexpr std::size_t ranks_ahead = 8;
    const auto entries = static_cast<std::size_t>(rows.indptr[rows.size] - rows.indptr[0]);
    ranks_.resize(entries + Splitter::room);
    values_.resize(entries + Splitter::room);
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
  std::vector<std::uint32_t> ranks_;  // of all rows, one after the other
  std::vector<float> values_;
  std::vector<Split> rows_;
};

}  // namespace pqr
