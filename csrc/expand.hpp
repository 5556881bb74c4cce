// Expansion: a row's coordinates, from which of its features are high.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinates.hpp"
#include "lanes.hpp"
#include "pairs.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "split.hpp"

namespace pqr {

struct ExpandRule {
  bool all_high;                            // QR: there are squares, and nothing is low
  float interaction_scale;                  // the factor; 0 leaves interactions as they are
  std::size_t max_pairs;                    // of a row: one with more is refused
  std::size_t most_high = ~std::size_t{0};  // of a row: as in Auto, the rest count as low
};

// A row shortly before its turn: its split, then its coordinates in their one order. Linear ones
// come first; then, for each high feature, the one of its own (shared, or its square) and the pairs
// with high features before it.
class Planned : public Split {
 public:
  Row row{};
  Coordinates coordinates;
  bool refused = false;

  // With the one of each high feature's own.
  std::size_t interactions() const { return high * (high + 1) / 2; }

  // Splits the row. Not inlined, so with vectors of four: what was just written one by one is slow
  // to read by eights.
  [[gnu::noinline]] void split(const Row& of, const Separation& separation, bool all_high) {
    row = of;
    if (ranks_.size() < row.size + Splitter::padding) {
      ranks_.resize(row.size + Splitter::padding);
      values_.resize(row.size + Splitter::padding);
    }
    splitter_.split(row, separation, all_high, ranks_.data(), values_.data(), *this);
  }
  // Takes a split that was made in advance.
  void take(const Row& of, const Split& split) {
    row = of;
    static_cast<Split&>(*this) = split;
  }

  // Lists numbers and values of all coordinates. The number of a linear one is its feature, or
  // `nothing` for features beyond; `first` is added to the numbers that pairs.hpp gives. A row with
  // too many pairs is refused, and has none.
  PQR_ALWAYS_INLINE void list(const ExpandRule& rule, std::uint32_t nothing, std::uint32_t first) {
    for (; high > rule.most_high; --high) low_sum += values[high - 1];
    refused = interactions() - high > rule.max_pairs;
    if (refused) take({nullptr, nullptr, 0}, {});
    Coordinates& c = coordinates;
    c.resize(row.size + interactions());
    std::uint32_t* const numbers = c.numbers.data();
    float* const x = c.x.data();
    by_eights(row.size, [&](std::size_t i, auto size) PQR_ALWAYS_INLINE {
      using Indices = Vector<std::uint32_t, size>;
      write(numbers + i, smaller(read_as<Indices>(row.indices + i), nothing - Indices{}));
      write(x + i, read_as<Vector<float, size>>(row.values + i));
    });
    if (high > 0) list_interactions(rule, first, numbers + row.size, x + row.size);
    c.pad(nothing);
  }

 private:
  using Numbers = Vector<std::uint32_t, lanes>;
  using Floats = Vector<float, lanes>;

  Splitter splitter_;
  std::vector<std::uint32_t> ranks_;
  std::vector<float> values_;
  std::vector<std::uint32_t> starts_;  // numbers of each high feature's own coordinate
  std::vector<float> factors_;         // their values, scaled

  // Covers arrays without padding by vectors: the last elements perhaps twice, or one by one.
  template <class Work>
  PQR_ALWAYS_INLINE static void by_eights(std::size_t size, Work work) {
    if (size < lanes) {
      for (std::size_t i = 0; i < size; ++i) work(i, Width<1>{});
      return;
    }
    for (std::size_t i = 0; i < size; i += lanes) work(std::min(i, size - lanes), Width<lanes>{});
  }

  // c / sqrt(m) for a row with m interactions (decision 4).
  PQR_ALWAYS_INLINE float scale(const ExpandRule& rule) const {
    const bool own = rule.all_high || low_sum != 0.0f;
    const std::size_t count = own ? interactions() : interactions() - high;
    if (rule.interaction_scale <= 0.0f || count == 0) return 1.0f;
    return rule.interaction_scale / std::sqrt(static_cast<float>(count));
  }

  // By eights: up to seven more are written.
  PQR_ALWAYS_INLINE void list_interactions(const ExpandRule& rule, std::uint32_t first,
                                           std::uint32_t* numbers, float* x) {
    if (starts_.size() < high + lanes) grow();
    // Local copies stay in registers: the compiler cannot rule out that the arrays overlap.
    const std::size_t count = high;
    const std::uint32_t* const rank = ranks;
    const float *const value = values, common = scale(rule);
    std::uint32_t* const starts = starts_.data();
    float *const factors = factors_.data(), *const all = x;
    for (std::size_t a = 0; a < count; a += lanes) {
      write(starts + a, span_start(read_as<Numbers>(rank + a)) + first);
      write(factors + a, read_as<Floats>(value + a) * common);
    }
    // What meets each high feature: its own coordinate, then one for each feature before.
    const auto partner = shuffled<8, 0, 1, 2, 3, 4, 5, 6>(read_as<Numbers>(rank) + 1, Numbers{});
    const auto amount =
        shuffled<8, 0, 1, 2, 3, 4, 5, 6>(read_as<Floats>(value), low_sum - Floats{});
    for (std::size_t b = 0; b < count; ++b) {
      const std::uint32_t start = starts[b];
      const float factor = factors[b];
      write(numbers, start + partner);
      write(x, amount * factor);
      for (std::size_t a = lanes; a <= b; a += lanes) {
        write(numbers + a, start + 1 + read_as<Numbers>(rank + a - 1));
        write(x + a, read_as<Floats>(value + a - 1) * factor);
      }
      numbers += b + 1;
      x += b + 1;
    }
    for (std::size_t b = 0; rule.all_high && b < count; ++b) {
      all[b * (b + 1) / 2] = value[b] * factors[b];
    }
  }

  [[gnu::noinline]] void grow() {
    starts_.resize(high + lanes);
    factors_.resize(high + lanes);
  }
};

}  // namespace pqr
