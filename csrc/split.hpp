// Splits rows into their high and low features: one when it is needed, or many in advance.
#pragma once

#include <algorithm>
#include <array>
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
  // More ranks and values than a row has features: Expansion::fill() reads them.
  static constexpr std::size_t room = 7;

  // A row's high features in the order in which they come.
  struct Found {
    std::vector<std::uint32_t> ranks;
    std::vector<float> values;
    std::size_t high = 0;
    double low_sum = 0;
  };

  PQR_ALWAYS_INLINE static void find(const Row& row, const Separation& separation, Found& found) {
    if (found.ranks.size() < row.size + more_keys) {
      found.ranks.resize(row.size + more_keys);
      found.values.resize(row.size + more_keys);
    }
    std::uint32_t* const ranks = found.ranks.data();
    float* const values = found.values.data();
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
    found.high = high;
    found.low_sum = low;
  }

  // `ranks` and `values` have room for all features of the row.
  template <std::size_t width = 4>
  PQR_ALWAYS_INLINE void sort(const Row& row, const Found& found, bool low_exists,
                              std::uint32_t* ranks, float* values, Split& split) {
    split.ranks = ranks;
    split.values = values;
    split.high = found.high;
    split.low_sum = low_exists ? static_cast<float>(found.low_sum) : 0.0f;
    split.ignored = low_exists ? 0 : row.size - found.high;
    if (found.high > few_keys) return sort_many(found, ranks, values);
    std::uint32_t places[few_keys + more_keys];
    places_in_order<width>(found.ranks.data(), found.high, places);
    for (std::size_t i = 0; i < found.high; ++i) {
      ranks[places[i]] = found.ranks[i];
      values[places[i]] = found.values[i];
    }
  }

  PQR_ALWAYS_INLINE void split(const Row& row, const Separation& separation, bool low_exists,
                               std::uint32_t* ranks, float* values, Split& split) {
    find(row, separation, found_);
    sort(row, found_, low_exists, ranks, values, split);
  }

 private:
  Found found_;
  std::vector<std::pair<std::uint32_t, float>> many_;

  [[gnu::noinline]] void sort_many(const Found& found, std::uint32_t* ranks, float* values) {
    many_.clear();
    for (std::size_t i = 0; i < found.high; ++i) {
      many_.emplace_back(found.ranks[i], found.values[i]);
    }
    std::sort(many_.begin(), many_.end());
    for (std::size_t i = 0; i < found.high; ++i) {
      ranks[i] = many_[i].first;
      values[i] = many_[i].second;
    }
  }
};

// Many rows, split before their turn, perhaps by another thread than the one that learns them.
class Splits {
 public:
  Splits(const Rows& rows, std::shared_ptr<const Separation> by) : by_(std::move(by)) {
    const Separation& separation = *by_;
    const auto entries = static_cast<std::size_t>(rows.indptr[rows.size] - rows.indptr[0]);
    ranks_.reset(new std::uint32_t[entries + Splitter::room]);
    values_.reset(new float[entries + Splitter::room]);
    std::fill_n(&ranks_[entries], Splitter::room, 0u);
    std::fill_n(&values_[entries], Splitter::room, 0.0f);
    rows_.resize(rows.size);
    vectorised(has_avx2(),
               [&, this](auto at_a_time) PQR_ALWAYS_INLINE { split<at_a_time>(rows, separation); });
  }

  // Those of `size` rows from `first` on, for a model with this separation; null if they are by
  // another one, or fewer.
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

  // Rows are sorted some rows after their ranks were found: what was just written in small pieces
  // could not be read as vectors at once.
  template <std::size_t width>
  PQR_ALWAYS_INLINE void split(const Rows& rows, const Separation& separation) {
    constexpr std::size_t ranks_ahead = 8, found_ahead = 3;
    Splitter splitter;
    std::array<Splitter::Found, found_ahead + 1> found;
    std::size_t first = 0;
    for (std::size_t f = 0; f < rows.size + found_ahead; ++f) {
      if (f + ranks_ahead < rows.size) separation.prefetch(rows[f + ranks_ahead]);
      if (f < rows.size) Splitter::find(rows[f], separation, found[f % found.size()]);
      if (f < found_ahead) continue;
      const std::size_t r = f - found_ahead;
      splitter.sort<width>(rows[r], found[r % found.size()], true, &ranks_[first], &values_[first],
                           rows_[r]);
      first += rows_[r].high;
    }
  }
};

}  // namespace pqr
