// Expansion: which interactions a row has, their numbers and their values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "avx2.hpp"
#include "lanes.hpp"
#include "pairs.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "split.hpp"

namespace pqr {

struct ExpandRule {
  bool low_exists;          // false in QR: a feature without a rank is ignored
  bool squares;             // QR
  float interaction_scale;  // the factor; 0 leaves interactions as they are
};

struct Expansion : Split {
  Row row{};
  float scale = 1;
  bool squares = false;

  // Each high feature has one coordinate of its own, shared or square, and one with each before it.
  std::size_t size() const { return high * (high + 1) / 2; }

  void expand(const Row& of, const Split& split, const ExpandRule& rule) {
    static_cast<Split&>(*this) = split;
    expand(of, rule);
  }

  void expand(const Row& of, const Separation& separation, const ExpandRule& rule) {
    const std::size_t room = of.size + Splitter::room;
    if (ranks_.size() < room) {
      ranks_.resize(room);
      values_.resize(room);
    }
    splitter_.split(of, separation, rule.low_exists, ranks_.data(), values_.data(), *this);
    expand(of, rule);
  }

  // The interactions in their one order: for each high feature the one of its own, then pairs with
  // those before it. `first` is added to the numbers that pairs.hpp gives them. By eights: up to
  // seven more are written.
  PQR_ALWAYS_INLINE void fill(std::uint32_t first, std::uint32_t* numbers, float* x) {
    using Numbers = Vector<std::uint32_t, lanes>;
    using Floats = Vector<float, lanes>;
    if (starts_.size() < high + lanes) grow();
    // In registers: for all that a compiler knows, what is written may be what is read.
    const std::size_t count = high;
    const std::uint32_t* const rank = ranks;
    const float *const value = values, common = scale;
    std::uint32_t* const starts = starts_.data();
    float *const factors = factors_.data(), *const all = x;
    for (std::size_t a = 0; a < count; a += lanes) {
      write(starts + a, row_start(read_as<Numbers>(rank + a)) + first);
      write(factors + a, read_as<Floats>(value + a) * common);
    }
    // What meets each high feature: its own coordinate, then one for each feature before.
    const auto partner = shuffled<8, 0, 1, 2, 3, 4, 5, 6>(read_as<Numbers>(rank) + 1, Numbers{});
    const auto amount =
        shuffled<8, 0, 1, 2, 3, 4, 5, 6>(read_as<Floats>(value), low_sum - Floats{});
    const std::size_t few = std::min(count, lanes);
    for (std::size_t b = 0; b < few; ++b) {
      write(numbers, starts[b] + partner);
      write(x, amount * factors[b]);
      numbers += b + 1;
      x += b + 1;
    }
    for (std::size_t b = few; b < count; ++b) {
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
    for (std::size_t b = 0; squares && b < count; ++b) all[b * (b + 1) / 2] = value[b] * factors[b];
  }

 private:
  Splitter splitter_;
  std::vector<std::uint32_t> ranks_;
  std::vector<float> values_;
  std::vector<std::uint32_t> starts_;  // numbers of each high feature's own coordinate
  std::vector<float> factors_;         // their values, scaled

  void expand(const Row& of, const ExpandRule& rule) {
    row = of;
    squares = rule.squares;
    scale = 1.0f;
    const bool own = squares || low_sum != 0.0f;
    const std::size_t count = own ? size() : size() - high;
    if (rule.interaction_scale > 0.0f && count > 0) {
      scale = rule.interaction_scale / std::sqrt(static_cast<float>(count));
    }
  }

  [[gnu::noinline]] void grow() {
    starts_.resize(high + lanes);
    factors_.resize(high + lanes);
  }
};

}  // namespace pqr
