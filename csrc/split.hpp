// Splits rows into high and low features: each when it is planned, or many in advance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lanes.hpp"
#include "row.hpp"
#include "separation.hpp"

namespace pqr {

class Splitter {
 public:
  // Of ranks and values, beyond the features: Planned::list() reads eight at a time.
  static constexpr std::size_t padding = lanes - 1;

  // `ranks` and `values` are as long as the row, or longer. Where everything is high, features
  // without a rank are left out.
  template <std::size_t width = 4>
  PQR_ALWAYS_INLINE void split(const Row& row, const Separation& separation, bool all_high,
                               std::uint32_t* ranks, float* values, Split& split) {
    if (ranks_.size() < row.size + more_keys) {
      ranks_.resize(row.size + more_keys);
      values_.resize(row.size + more_keys);
    }
    // Local copies stay in registers: the compiler cannot rule out that the arrays overlap.
    std::uint32_t* const found = ranks_.data();
    float* const amounts = values_.data();
    std::size_t high = 0;
    double low = 0.0;
    for (std::size_t i = 0; i < row.size; ++i) {
      const std::uint32_t rank = separation.rank(row.indices[i]);
      const float value = row.values[i];
      const bool is_high = rank != Separation::low;
      found[high] = rank;
      amounts[high] = value;
      high += is_high;
      low += is_high ? 0.0f : value;
    }
    split = {ranks, values, high, 0.0f, 0};
    if (all_high) {
      split.left_out = row.size - high;
    } else {
      split.low_sum = static_cast<float>(low);
    }
    sort_keys<width>(found, amounts, high, ranks, values);
  }

 private:
  // The row's high features in order of feature, before they are sorted.
  std::vector<std::uint32_t> ranks_;
  std::vector<float> values_;
};

// Many rows, split by the thread that reads them (decision 11).
class Splits {
 public:
  Splits(const Rows& rows, std::shared_ptr<const Separation> by) : by_(std::move(by)) {
    const auto entries = static_cast<std::size_t>(rows.indptr[rows.size] - rows.indptr[0]);
    ranks_.reset(new std::uint32_t[entries + Splitter::padding]);
    values_.reset(new float[entries + Splitter::padding]);
    std::fill_n(&ranks_[entries], Splitter::padding, 0u);
    std::fill_n(&values_[entries], Splitter::padding, 0.0f);
    rows_.resize(rows.size);
    vectorised(has_avx2(), [&, this](auto width) PQR_ALWAYS_INLINE { split<width>(rows); });
  }

  // Those of `size` rows from `first` on; null if there are fewer, or if they are not by this
  // separation.
  const Split* of(const Separation* separation, std::size_t first, std::size_t size) const {
    const bool fit =
        by_.get() == separation && first <= rows_.size() && size <= rows_.size() - first;
    return fit ? rows_.data() + first : nullptr;
  }

 private:
  std::shared_ptr<const Separation> by_;
  std::unique_ptr<std::uint32_t[]> ranks_;  // of all rows, one after the other
  std::unique_ptr<float[]> values_;
  std::vector<Split> rows_;

  template <std::size_t width>
  PQR_ALWAYS_INLINE void split(const Rows& rows) {
    constexpr std::size_t ranks_ahead = 8;  // rows: a microsecond, longer than memory takes
    Splitter splitter;
    std::size_t first = 0;
    for (std::size_t r = 0; r < rows.size; ++r) {
      if (r + ranks_ahead < rows.size) by_->prefetch(rows[r + ranks_ahead]);
      splitter.split<width>(rows[r], *by_, false, &ranks_[first], &values_[first], rows_[r]);
      first += rows_[r].high;
    }
  }
};

}  // namespace pqr
