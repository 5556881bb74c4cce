// Separation: feature -> rank (high) or low. Counter: how often each feature occurs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "prefetch.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

class Separation {
 public:
  static constexpr std::uint32_t low = 0xFFFFFFFFu;

  std::uint32_t rank(std::uint32_t feature) const {
    const std::uint32_t* above = ranks_.find(feature);
    return above ? *above - 1 : low;  // 0, a chunk's default, is low
  }

  // By feature, up to the first of those beyond which all are low: its rank plus 1, or 0 if it is
  // low; null where ranks do not lie in one array.
  const std::uint32_t* above() const { return ranks_.front(&beyond_, 1); }
  std::uint32_t beyond() const { return beyond_; }

  // Ranks are only ever appended. False when the feature is high already.
  bool append(std::uint32_t feature) {
    bool moved = false;
    std::uint32_t* above = ranks_.make(feature, moved);
    if (*above != 0) return false;
    features_.push_back(feature);
    *above = static_cast<std::uint32_t>(features_.size());
    beyond_ = std::max(beyond_, std::min(feature, low - 1) + 1);
    if (beyond_ < ranks_.front_keys) ranks_.make(beyond_, moved);  // 0, so that above() has it
    return true;
  }

  // Takes the last appends back.
  void cut(std::size_t order) {
    bool moved = false;
    for (; features_.size() > order; features_.pop_back())
      *ranks_.make(features_.back(), moved) = 0;
  }

  void prefetch(const Row& row) const {
    constexpr std::size_t few = 4096;  // which stay in the cache, unless they lie in an array
    if (const std::uint32_t* const ranks = above()) {
      for (std::size_t i = 0; i < row.size; ++i) fetch(ranks + std::min(row.indices[i], beyond_));
    } else if (features_.size() >= few) {
      ranks_.prefetch(row.indices, row.size);
    }
  }
  const std::vector<std::uint32_t>& features() const { return features_; }
  std::size_t order() const { return features_.size(); }

 private:
  Table<std::uint32_t> ranks_;  // rank + 1
  std::vector<std::uint32_t> features_;
  std::uint32_t beyond_ = 0;  // after all of them, or the last feature of all
};

struct Count {
  std::uint32_t feature;
  std::uint64_t rows;
};

// A count is the number of rows in which a feature is non-zero.
class Counter {
 public:
  void add(const Row& row) {
    counts_.enlarge_front(++rows_);
    const auto count = [&](auto place_of) {
      for (std::size_t i = 0; i < row.size; ++i) distinct_ += ++*place_of(row.indices[i]) == 1;
    };
    bool moved = false;
    if (std::uint64_t* first = counts_.front(row.indices, row.size)) {
      count([=](std::uint32_t feature) { return first + feature; });
    } else {
      count([&](std::uint32_t feature) { return counts_.make(feature, moved); });
    }
    if (row.size > 0) {
      next_feature_ = std::max(next_feature_, std::uint64_t{row.indices[row.size - 1]} + 1);
    }
  }

  std::uint64_t rows() const { return rows_; }
  std::uint64_t distinct() const { return distinct_; }
  std::uint64_t next_feature() const { return next_feature_; }  // above every index counted

  // The `order` most frequent features among those counted `min_count` times or
  // more; most frequent first, ties to the smaller index.
  std::vector<Count> top(std::size_t order, std::uint64_t min_count) const {
    std::vector<Count> counts;
    counts_.each_sorted([&](std::uint32_t feature, std::uint64_t rows) {
      if (rows > 0 && rows >= min_count) counts.push_back({feature, rows});
    });
    const auto before = [](const Count& a, const Count& b) {
      return a.rows != b.rows ? a.rows > b.rows : a.feature < b.feature;
    };
    const auto end = counts.begin() + static_cast<std::ptrdiff_t>(std::min(order, counts.size()));
    std::partial_sort(counts.begin(), end, counts.end(), before);
    counts.erase(end, counts.end());
    return counts;
  }

 private:
  Table<std::uint64_t> counts_;
  std::uint64_t rows_ = 0;
  std::uint64_t distinct_ = 0;
  std::uint64_t next_feature_ = 0;
};

}  // namespace pqr
