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
  // How many more ranks and values there are than features: Expansion::list() reads by eights.
  static constexpr std::size_t padding = 7;

  // `ranks` and `values` have room for all features of the row. Where everything is high, features
  // without a rank are left out.
  template <std::size_t width = 4>
  PQR_ALWAYS_INLINE void split(const Row& row, const Separation& separation, bool everything_high,
                               std::uint32_t* ranks, float* values, Split& split) {
    find(row, separation);
    split.ranks = ranks;
    split.values = values;
    split.high = high_;
    split.low_sum = everything_high ? 0.0f : static_cast<float>(low_sum_);
    split.left_out = everything_high ? row.size - high_ : 0;
    if (high_ > few_keys) return sort_many(ranks, values);
    std::uint32_t places[few_keys + more_keys];
    places_in_order<width>(ranks_.data(), high_, places);
    for (std::size_t i = 0; i < high_; ++i) {
      ranks[places[i]] = ranks_[i];
      values[places[i]] = values_[i];
    }
  }

 private:
  // The row's high features in the order in which they come.
  std::vector<std::uint32_t> ranks_;
  std::vector<float> values_;
  std::size_t high_ = 0;
  double low_sum_ = 0;
  std::vector<std::pair<std::uint32_t, float>> many_;

  PQR_ALWAYS_INLINE void find(const Row& row, const Separation& separation) {
    if (ranks_.size() < row.size + more_keys) {
      ranks_.resize(row.size + more_keys);
      values_.resize(row.size + more_keys);
    }
    std::uint32_t* const ranks = ranks_.data();
    float* const values = values_.data();
    std::size_t high = 0;
    double low = 0.0;
    const auto find_all = [&](auto rank_of) PQR_ALWAYS_INLINE {
      for (std::size_t i = 0; i < row.size; ++i) {
        const std::uint32_t rank = rank_of(row.indices[i]);
        const float value = row.values[i];
        const bool is_high = rank != Separation::low;
        ranks[high] = rank;
        values[high] = value;
        high += is_high;
        low += is_high ? 0.0f : value;
      }
    };
    if (const std::uint32_t* above = separation.above()) {
      find_all([above, beyond = separation.beyond()](std::uint32_t feature)
                   PQR_ALWAYS_INLINE { return above[std::min(feature, beyond)] - 1; });
    } else {
      find_all([&](std::uint32_t feature) PQR_ALWAYS_INLINE { return separation.rank(feature); });
    }
    high_ = high;
    low_sum_ = low;
  }

  [[gnu::noinline]] void sort_many(std::uint32_t* ranks, float* values) {
    many_.clear();
    for (std::size_t i = 0; i < high_; ++i) many_.emplace_back(ranks_[i], values_[i]);
    std::sort(many_.begin(), many_.end());
    for (std::size_t i = 0; i < high_; ++i) {
      ranks[i] = many_[i].first;
      values[i] = many_[i].second;
    }
  }
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
