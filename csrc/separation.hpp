// Separation: feature -> rank (high) or low. Counter: how often each feature occurs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "prefetch.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

class Separation {
 public:
  static constexpr std::uint32_t low = 0xFFFFFFFFu;

  // The whole front of the table exists from the start, which takes no memory before it is written:
  // whether a feature lies there is then a branch that is predicted.
  Separation() { ranks_.make(ranks_.front_keys - 1); }

  std::uint32_t rank(std::uint32_t feature) const {
    const std::uint32_t* above = ranks_.find(feature);
    return above ? *above - 1 : low;  // 0, the default, gives `low`
  }

  // Ranks are only ever appended. False when the feature is high already.
  bool append(std::uint32_t feature) {
    std::uint32_t* above = ranks_.make(feature);
    if (*above != 0) return false;
    features_.push_back(feature);
    *above = static_cast<std::uint32_t>(features_.size());
    return true;
  }

  // Undoes the last appends.
  void cut(std::size_t order) {
    for (; features_.size() > order; features_.pop_back()) *ranks_.make(features_.back()) = 0;
  }

  void prefetch(const Row& row) const {
    if (order() > 0) ranks_.prefetch(row.indices, row.size);
  }
  const std::vector<std::uint32_t>& features() const { return features_; }
  std::size_t order() const { return features_.size(); }

 private:
  Table<std::uint32_t> ranks_;  // rank + 1
  std::vector<std::uint32_t> features_;
};

struct Count {
  std::uint32_t feature;
  std::uint64_t rows;
};

// A count is the number of rows in which a feature is non-zero.
class Counter {
 public:
  void add(const Row& row) {
    ++rows_;
    for (std::size_t i = 0; i < row.size; ++i) {
      distinct_ += ++*counts_.make(row.indices[i]) == 1;
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
