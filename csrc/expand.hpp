// A row, split into its high and low features: all that the expansion needs.
//   linear   x_i                                  every feature
//   pair     x_i x_j                              i, j high
//   shared   x_i * (sum of x_j over j low)        i high        (PQR)
//   square   x_i^2                                i high        (QR)
// Interaction values are multiplied by `scale`: 1, or factor / sqrt(how many they are).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "row.hpp"
#include "separation.hpp"

namespace pqr {

struct High {
  std::uint32_t rank;
  float value;
};

struct ExpandRule {
  bool low_exists;          // false in QR: a feature without a rank is ignored
  bool squares;             // QR
  float interaction_scale;  // the factor; 0 leaves interactions as they are
};

struct Expansion {
  Row row{};
  std::vector<High> high;  // by rank
  float low_sum = 0;
  float scale = 1;
  std::size_t ignored = 0;  // features without a rank, where there is no low
  float largest = 0;        // no coordinate is larger, in absolute value
  bool shared = false;
  bool squares = false;

  std::size_t pairs() const { return high.empty() ? 0 : high.size() * (high.size() - 1) / 2; }
  std::size_t interactions() const {
    return pairs() + (shared ? high.size() : 0) + (squares ? high.size() : 0);
  }

  void split(const Row& of, const Separation& separation, const ExpandRule& rule) {
    row = of;
    high.clear();
    ignored = 0;
    float value_bound = 0.0f;
    for (std::size_t i = 0; i < row.size; ++i) {
      value_bound = std::max(value_bound, std::fabs(row.values[i]));
    }
    if (separation.order() == 0 && rule.low_exists) {  // linear: no interactions
      shared = squares = false;
      largest = value_bound;
      return;
    }
    double low = 0.0;
    high.resize(row.size);
    std::size_t found = 0;
    for (std::size_t i = 0; i < row.size; ++i) {
      const std::uint32_t rank = separation.rank(row.indices[i]);
      if (rank != Separation::low) {
        high[found++] = {rank, row.values[i]};
      } else if (rule.low_exists) {
        low += row.values[i];
      } else {
        ++ignored;
      }
    }
    high.resize(found);
    std::sort(high.begin(), high.end(),
              [](const High& a, const High& b) { return a.rank < b.rank; });
    low_sum = static_cast<float>(low);
    shared = rule.low_exists && low_sum != 0.0f;
    squares = rule.squares;
    scale = 1.0f;
    const std::size_t count = interactions();
    if (rule.interaction_scale > 0.0f && count > 0) {
      scale = rule.interaction_scale / std::sqrt(static_cast<float>(count));
    }
    const float partner = std::max(value_bound, std::fabs(low_sum));
    largest = std::max(value_bound, count > 0 ? value_bound * partner * scale : 0.0f);
  }
};

}  // namespace pqr
