// Which features are high, in the order of rise, and what rows look like. A low feature that has
// been in `enough` rows rises when the number of rows next is a multiple of `every`, as long as
// fewer than `budget` pairs have slots. So rows can be cut anywhere, and no row changes what is
// high for those right after it. At the same moments the mean number of features a row and the mean
// sum of low ones are refreshed, when the number of rows has reached the next power of two.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pqr {

struct Rise {
  static constexpr std::uint32_t low = 0xFFFFFFFFu;
  static constexpr std::uint32_t enough = 3;
  static constexpr std::size_t budget = 65536;
  static constexpr std::size_t most = 65535;  // ranks: two of them make a key of 32 bits
  static constexpr std::uint64_t every = 64;

  std::vector<std::uint32_t> high;     // features by rank
  std::vector<std::uint32_t> waiting;  // features that are to rise
  double rows = 0.0, features = 0.0;   // learned, and of all of them
  double meetings = 0.0, low_sum = 0.0;
  double refresh_at = 1.0;
  double mean_features = 1.0, mean_low = 1.0;

  double features_for(std::size_t size) const {  // n
    return rows > 0.0 ? mean_features : std::max(1.0, static_cast<double>(size));
  }

  // Counts a row. Returns whether features may rise now; `sum` is that of its low features, 0 where
  // no high feature meets them.
  bool see(std::size_t size, double sum) {
    mean_features = features_for(size);
    rows += 1.0;
    features += static_cast<double>(size);
    meetings += sum != 0.0;
    low_sum += std::fabs(sum);
    if (static_cast<std::uint64_t>(rows) % every != 0) return false;
    if (rows >= refresh_at) {
      mean_features = std::max(1.0, features / rows);
      mean_low = std::max(1.0, meetings > 0.0 ? low_sum / meetings : 1.0);
      while (refresh_at <= rows) refresh_at *= 2.0;
    }
    return true;
  }

  // The features that rise, by index, given how many pairs there are.
  std::vector<std::uint32_t> next(std::size_t pairs) {
    std::vector<std::uint32_t> rising;
    rising.swap(waiting);
    std::sort(rising.begin(), rising.end());
    rising.erase(std::unique(rising.begin(), rising.end()), rising.end());
    if (pairs >= budget) rising.clear();
    rising.resize(std::min(rising.size(), most - high.size()));
    high.insert(high.end(), rising.begin(), rising.end());
    return rising;
  }
};

}  // namespace pqr
