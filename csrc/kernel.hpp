// The arithmetic of one row over contiguous arrays, in loops that vectorise. The
// same source is compiled for AVX2 and for any machine, and picked at run time;
// every operation rounds once and sums have a fixed shape, so both give the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "avx2.hpp"
#include "optim.hpp"

namespace pqr {

constexpr std::size_t lanes = 8;  // arrays are padded to a multiple of it, with x = 0

// The row's sum: `lanes` strided partial sums, then a fixed tree. `Part` is an array or a vector.
template <class Part>
PQR_ALWAYS_INLINE inline double sum_of_parts(const Part& part) {
  const double even = (double{part[0]} + part[4]) + (double{part[2]} + part[6]);
  const double odd = (double{part[1]} + part[5]) + (double{part[3]} + part[7]);
  return even + odd;
}
PQR_ALWAYS_INLINE inline double sum_of_products(const float* w, const float* x, std::size_t size) {
  float part[lanes] = {};
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) part[l] += w[i + l] * x[i + l];
  }
  return sum_of_parts(part);
}

// Sum of the squares of z, in double: `lanes` strided partial sums, then the same tree.
inline double sum_of_squares(const Slot<float>* slots, std::size_t size) {
  double part[lanes] = {};
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) {
      part[l] += double{slots[i + l].z} * double{slots[i + l].z};
    }
  }
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

// The largest of all absolute values, as whole numbers, which have the order of floats without sign
// and are compared many at a time; infinities are larger, and what is no number is largest.
PQR_ALWAYS_INLINE inline float largest_of(const float* x, std::size_t size) {
  std::int32_t most[lanes] = {};
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) {
      std::int32_t bits = 0;
      std::memcpy(&bits, x + i + l, sizeof bits);
      most[l] = std::max(most[l], bits & 0x7FFFFFFF);
    }
  }
  float largest = 0.0f;
  std::memcpy(&largest, std::max_element(most, most + lanes), sizeof largest);
  return largest;
}

struct Weighed {
  double sum;     // w . x
  float largest;  // |x|
};

// w = weight(slot). `Each` is an optimizer as one coordinate sees it.
template <class Each>
Weighed weigh_slots(bool avx2, Each each, const Slot<float>* slots, const float* x, float* w,
                    std::size_t padded) {
  return vectorised(avx2, [=]() PQR_ALWAYS_INLINE {
    const std::size_t size = padded / lanes * lanes;  // which the compiler then knows
#pragma GCC ivdep
    for (std::size_t i = 0; i < size; ++i) w[i] = each.weight(slots[i]);
    return Weighed{sum_of_products(w, x, size), largest_of(x, size)};
  });
}

// slot = step(slot, w, slope * x)
template <class Each>
void step_slots(bool avx2, Each each, Slot<float>* slots, const float* x, const float* w,
                float slope, std::size_t padded) {
  vectorised(avx2, [=]() PQR_ALWAYS_INLINE {
    const std::size_t size = padded / lanes * lanes;
#pragma GCC ivdep
    for (std::size_t i = 0; i < size; ++i) slots[i] = each.step(slots[i], w[i], slope * x[i]);
  });
}

}  // namespace pqr
