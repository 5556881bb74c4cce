// Factors: a short vector per feature, whose products with each other are the
// weights of pairs. Where they start, where they are kept, and the arithmetic of a
// row, in O(dimension x features) by the identity
//   sum over i < j of <v_i, v_j> x_i x_j = sum over c of (S_c^2 - Q_c) / 2,
//   S_c = sum of v_ic x_i,  Q_c = sum of (v_ic x_i)^2.
// Features may differ in their dimension, which is how many factors they have: a shorter vector has
// no part in the later sums, so that every product ends with the shorter of its two vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "descent.hpp"
#include "lanes.hpp"
#include "row.hpp"

namespace pqr {

// Larger gradients could overflow the square of a float after many rows, and larger
// steps of weights the products of the next row.
inline bool is_learnable(double gradient, double step) { return gradient <= 1e15 && step <= 1e9; }

// Components are kept in whole vectors; those beyond the dimension are zero and stay so.
inline std::size_t padded(std::size_t size) { return (size + lanes - 1) / lanes * lanes; }

// The finalizer of SplitMix64: every bit of the input moves every bit of the result.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Where factors start: uniform in [-scale, scale), by a hash of (seed, feature,
// component), of which 24 bits fill a float. So no generator has a state to save.
struct Start {
  std::uint64_t seed;
  float scale;

  float operator()(std::uint32_t feature, std::size_t component) const {
    const std::uint64_t key = std::uint64_t{feature} << 32 | component;
    const std::uint64_t hash = mixed(mixed(seed + 0x9E3779B97F4A7C15u) ^ key);  // its increment
    return scale * (static_cast<float>(hash >> 40) * 0x1p-23f - 1.0f);
  }
  void fill(std::uint32_t feature, std::size_t from, std::size_t to, float* v) const {
    for (std::size_t c = from; c < to; ++c) v[c] = (*this)(feature, c);
  }
};

// Zeroed floats that never move, for as long as it lives.
class Arena {
 public:
  float* add(std::size_t size) {
    if (size > left_) {
      left_ = std::max(size, chunk_floats);
      chunks_.emplace_back(new float[left_]());
      next_ = chunks_.back().get();
    }
    left_ -= size;
    return std::exchange(next_, next_ + size);
  }

 private:
  static constexpr std::size_t chunk_floats = 32768;  // 1024 times 16 factors with their sums

  std::vector<std::unique_ptr<float[]>> chunks_;
  float* next_ = nullptr;
  std::size_t left_ = 0;
};

// One feature of a row: its factors, with AdaGrad their sums behind them.
struct Factored {
  float* v;
  std::size_t dimension;
  float x;
};

// The sums of one row, and the step of its factors.
class Products {
 public:
  // Returns the sum over all pairs of features.
  double sum(bool avx2, const std::vector<Factored>& features) {
    std::size_t size = 0;
    for (const Factored& feature : features) size = std::max(size, padded(feature.dimension));
    sums_.resize(size);
    squares_.resize(size);
    double total = 0.0;
    for (std::size_t c = 0; c < size; c += lanes) {
      total += vectorised(avx2, [this, &features, c](auto) PQR_ALWAYS_INLINE {
        return sum_lanes(features, c, sums_.data() + c, squares_.data() + c);
      });
    }
    return total / 2;
  }

  // At least the largest gradient of a row with this slope.
  double largest_gradient(const Row& row, double slope) const {
    double largest = 0.0;
    for (std::size_t i = 0; i < row.size; ++i) {
      largest = std::max(largest, std::fabs(double{row.values[i]}));
    }
    float sum = 0.0f, square = 0.0f;
    for (std::size_t c = 0; c < sums_.size(); ++c) {
      sum = std::max(sum, std::fabs(sums_[c]));
      square = std::max(square, squares_[c]);
    }
    const double reach = double{sum} + std::sqrt(double{square});  // at least any |S_c - v_ic x_i|
    return std::fabs(slope) * std::max(1.0, largest * std::max(1.0, reach));
  }

  // gradient of v_ic = slope x_i (S_c - v_ic x_i)
  void step(bool avx2, const Descent<float>& descent, bool adaptive, const Factored& feature,
            float slope) const {
    vectorised(avx2, [this, &descent, adaptive, &feature, slope](auto) PQR_ALWAYS_INLINE {
      if (adaptive) {
        step<true>(descent, feature, sums_.data(), slope);
      } else {
        step<false>(descent, feature, sums_.data(), slope);
      }
    });
  }

 private:
  std::vector<float> sums_, squares_;

  PQR_ALWAYS_INLINE static double sum_lanes(const std::vector<Factored>& features, std::size_t c,
                                            float* sums, float* squares) {
    float s[lanes] = {}, q[lanes] = {};
    for (const Factored& feature : features) {
      if (c >= feature.dimension) continue;
      const float* v = feature.v + c;
      for (std::size_t l = 0; l < lanes; ++l) {
        const float vx = v[l] * feature.x;
        s[l] += vx;
        q[l] += vx * vx;
      }
    }
    float lane[lanes];
    for (std::size_t l = 0; l < lanes; ++l) {
      sums[l] = s[l];
      squares[l] = q[l];
      lane[l] = s[l] * s[l] - q[l];
    }
    return sum_of_lanes(lane);
  }

  template <bool adaptive>
  PQR_ALWAYS_INLINE static void step(const Descent<float>& descent, const Factored& feature,
                                     const float* __restrict sums, float slope) {
    float* __restrict v = feature.v;
    float* __restrict n = feature.v + padded(feature.dimension);
    const float x = feature.x, slope_x = slope * feature.x;
    const Descent<float> each = descent;
    for (std::size_t c = 0; c < feature.dimension; ++c) {
      const float gradient = slope_x * (sums[c] - v[c] * x);
      v[c] = adaptive ? each.adaptive(v[c], n[c], gradient) : each.plain(v[c], gradient);
    }
  }
};

}  // namespace pqr
