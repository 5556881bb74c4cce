// A row, expanded: all that is needed to list its coordinates.
//   linear   x_i                                  every feature
//   pair     x_i x_j                              i, j high
//   shared   x_i * (sum of x_j over j low)        i high        (PQR)
//   square   x_i^2                                i high        (QR)
// Interaction values are multiplied by `scale`: 1, or factor / sqrt(how many they are).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

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
  bool shared = false;
  bool squares = false;

  std::size_t pairs() const { return high == 0 ? 0 : high * (high - 1) / 2; }
  std::size_t interactions() const { return pairs() + (shared ? high : 0) + (squares ? high : 0); }

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

 private:
  Splitter splitter_;
  std::vector<std::uint32_t> ranks_;
  std::vector<float> values_;

  void expand(const Row& of, const ExpandRule& rule) {
    row = of;
    shared = rule.low_exists && low_sum != 0.0f;
    squares = rule.squares;
    scale = 1.0f;
    const std::size_t count = interactions();
    if (rule.interaction_scale > 0.0f && count > 0) {
      scale = rule.interaction_scale / std::sqrt(static_cast<float>(count));
    }
  }
};

}  // namespace pqr
