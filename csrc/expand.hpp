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

#include "order.hpp"
#include "row.hpp"
#include "separation.hpp"

namespace pqr {

struct ExpandRule {
  bool low_exists;          // false in QR: a feature without a rank is ignored
  bool squares;             // QR
  float interaction_scale;  // the factor; 0 leaves interactions as they are
};

struct Expansion {
  Row row{};
  std::vector<std::uint32_t> ranks;  // of the high features, in order
  std::vector<float> values;         // of the same
  std::size_t high = 0;              // how many they are
  float low_sum = 0;
  float scale = 1;
  std::size_t ignored = 0;  // features without a rank, where there is no low
  bool shared = false;
  bool squares = false;

  std::size_t pairs() const { return high == 0 ? 0 : high * (high - 1) / 2; }
  std::size_t interactions() const { return pairs() + (shared ? high : 0) + (squares ? high : 0); }

  void split(const Row& of, const Separation& separation, const ExpandRule& rule) {
    row = of;
    high = 0;
    ignored = 0;
    double low = 0.0;
    found_.resize(row.size);
    for (std::size_t i = 0; i < row.size; ++i) {
      const std::uint32_t rank = separation.rank(row.indices[i]);
      if (rank != Separation::low) {
        found_[high++] = {rank, row.values[i]};
      } else if (rule.low_exists) {
        low += row.values[i];
      } else {
        ++ignored;
      }
    }
    sort_high();
    low_sum = static_cast<float>(low);
    shared = rule.low_exists && low_sum != 0.0f;
    squares = rule.squares;
    scale = 1.0f;
    const std::size_t count = interactions();
    if (rule.interaction_scale > 0.0f && count > 0) {
      scale = rule.interaction_scale / std::sqrt(static_cast<float>(count));
    }
  }

 private:
  struct Found {
    std::uint32_t rank;
    float value;
  };
  std::vector<Found> found_;

  void sort_high() {
    const std::size_t padded = (high + 3) / 4 * 4;  // for fill()
    if (ranks.size() < padded) {
      ranks.resize(padded);
      values.resize(padded);
    }
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

}  // namespace pqr
