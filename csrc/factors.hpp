// Factors: a short vector per feature, whose products with each other are the
// weights of pairs. Where they start, where they are kept, and the arithmetic of a
// row, in O(rank x features) by the identity
//   sum over i < j of <v_i, v_j> x_i x_j = sum over c of (S_c^2 - Q_c) / 2,
//   S_c = sum of v_ic x_i,  Q_c = sum of (v_ic x_i)^2.
// A feature of a smaller rank has no part in the later sums, which truncates every
// product to the smaller of its two ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "avx2.hpp"
#include "descent.hpp"
#include "lanes.hpp"
#include "row.hpp"

namespace pqr {

// Gradients above this could overflow the square of a float after many rows, and
// weights that moved further in one step the products of the next row.
inline bool is_learnable(double gradient, double step) { return gradient <= 1e15 && step <= 1e9; }

// Components are kept in whole vectors; those beyond the rank are zero and stay so.
inline std::size_t padded(std::size_t rank) { return (rank + lanes - 1) / lanes * lanes; }

// The finalizer of SplitMix64: every bit of the input moves every bit of the result.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Where factors start: uniform in [-scale, scale), by a hash of (seed, feature,
// component). So there is no generator whose state would have to be saved.
struct Start {
  std::uint64_t seed;
  float scale;

  float operator()(std::uint32_t feature, std::size_t component) const {
    const std::uint64_t key = std::uint64_t{feature} << 32 | component;
    const std::uint64_t hash = mixed(mixed(seed + 0x9E3779B97F4A7C15u) ^ key);
    return scale * (static_cast<float>(hash >> 40) * 0x1p-23f - 1.0f);
  }
  void fill(std::uint32_t feature, std::size_t from, std::size_t rank, float* v) const {
    for (std::size_t c = from; c < rank; ++c) v[c] = (*this)(feature, c);
  }
};

// Records of a fixed width, which never move; a place is never 0.
class Pool {
 public:
  explicit Pool(std::size_t width) : width_(width) {
    while (bits_ > 0 && (width << bits_) > chunk_floats) --bits_;
  }

  std::uint32_t add() {
    if (!free_.empty()) {
      const std::uint32_t place = free_.back();
      free_.pop_back();
      return place;
    }
    if (used_ >> bits_ == chunks_.size()) chunks_.emplace_back(new float[width_ << bits_]);
    return static_cast<std::uint32_t>(++used_);
  }
  void release(std::uint32_t place) { free_.push_back(place); }

  float* at(std::uint32_t place) const {
    const std::size_t record = place - 1;
    return chunks_[record >> bits_].get() + (record & ((std::size_t{1} << bits_) - 1)) * width_;
  }
  std::size_t width() const { return width_; }

 private:
  static constexpr std::size_t chunk_floats = std::size_t{1} << 16;

  std::size_t width_;
  std::size_t bits_ = 12;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<float[]>> chunks_;
  std::vector<std::uint32_t> free_;
};

// One feature of a row: its factors (with AdaGrad their sums behind them).
struct Term {
  float* v;
  std::size_t rank;
  std::size_t size;  // the rank, padded; where the sums begin
  float x;
};

// The sums of one row, and the step of its factors.
class Products {
 public:
  // Returns the sum over all pairs of terms.
  double sum(bool avx2, const std::vector<Term>& terms) {
    std::size_t size = 0;
    for (const Term& term : terms) size = std::max(size, term.size);
    sums_.resize(size);
    squares_.resize(size);
    double total = 0.0;
    for (std::size_t c = 0; c < size; c += lanes) {
      total += vectorised(avx2, [this, &terms, c](auto) PQR_ALWAYS_INLINE {
        return block(terms, c, sums_.data() + c, squares_.data() + c);
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
    return std::fabs(slope) * std::max(1.0, largest * std::max(1.0, reach()));
  }

  // At least the largest |S_c - v_ic x_i|.
  double reach() const {
    float sum = 0.0f, square = 0.0f;
    for (std::size_t c = 0; c < sums_.size(); ++c) {
      sum = std::max(sum, std::fabs(sums_[c]));
      square = std::max(square, squares_[c]);
    }
    return double{sum} + std::sqrt(double{square});
  }

  // gradient of v_ic = slope x_i (S_c - v_ic x_i)
  void step(bool avx2, const Descent<float>& descent, bool adaptive, const Term& term,
            float slope) const {
    vectorised(avx2, [this, &descent, adaptive, &term, slope](auto) PQR_ALWAYS_INLINE {
      if (adaptive) {
        step_adaptive(descent, term, sums_.data(), slope);
      } else {
        step_plain(descent, term, sums_.data(), slope);
      }
    });
  }

 private:
  std::vector<float> sums_, squares_;

  PQR_ALWAYS_INLINE static double block(const std::vector<Term>& terms, std::size_t c, float* sums,
                                        float* squares) {
    float s[lanes] = {}, q[lanes] = {};
    for (const Term& term : terms) {
      if (c >= term.size) continue;
      const float* v = term.v + c;
      for (std::size_t l = 0; l < lanes; ++l) {
        const float vx = v[l] * term.x;
        s[l] += vx;
        q[l] += vx * vx;
      }
    }
    float part[lanes];
    for (std::size_t l = 0; l < lanes; ++l) {
      sums[l] = s[l];
      squares[l] = q[l];
      part[l] = s[l] * s[l] - q[l];
    }
    const double even = (double{part[0]} + part[4]) + (double{part[2]} + part[6]);
    const double odd = (double{part[1]} + part[5]) + (double{part[3]} + part[7]);
    return even + odd;
  }

  PQR_ALWAYS_INLINE static void step_adaptive(const Descent<float>& descent, const Term& term,
                                              const float* __restrict sums, float slope) {
    float* __restrict v = term.v;
    float* __restrict n = term.v + term.size;
    const float x = term.x, slope_x = slope * term.x;
    const Descent<float> each = descent;
    for (std::size_t c = 0; c < term.rank; ++c) {
      v[c] = each.adaptive(v[c], n[c], slope_x * (sums[c] - v[c] * x));
    }
  }

  PQR_ALWAYS_INLINE static void step_plain(const Descent<float>& descent, const Term& term,
                                           const float* __restrict sums, float slope) {
    float* __restrict v = term.v;
    const float x = term.x, slope_x = slope * term.x;
    const Descent<float> each = descent;
    for (std::size_t c = 0; c < term.rank; ++c) {
      v[c] = each.plain(v[c], slope_x * (sums[c] - v[c] * x));
    }
  }
};

}  // namespace pqr
