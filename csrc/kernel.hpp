// The arithmetic of one row over contiguous arrays, in loops that vectorise. The
// same source is compiled for AVX2 and for any machine, and picked at run time;
// every operation rounds once and sums have a fixed shape, so both give the same bits.
#pragma once

#include <cstddef>

#include "avx2.hpp"
#include "optim.hpp"

namespace pqr {

constexpr std::size_t lanes = 8;  // arrays are padded to a multiple of it, with x = 0

// The row's sum: `lanes` strided partial sums, then a fixed tree.
PQR_ALWAYS_INLINE inline double sum_of_products(const float* w, const float* x, std::size_t size) {
  float part[lanes] = {};
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) part[l] += w[i + l] * x[i + l];
  }
  const double even = (double{part[0]} + part[4]) + (double{part[2]} + part[6]);
  const double odd = (double{part[1]} + part[5]) + (double{part[3]} + part[7]);
  return even + odd;
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

// w = weight(slot); returns w . x. `Each` is an optimizer as one coordinate sees it.
template <class Each>
double weigh_slots(bool avx2, Each each, const Slot<float>* slots, const float* x, float* w,
                   std::size_t padded) {
  return vectorised(avx2, [=]() PQR_ALWAYS_INLINE {
    const std::size_t size = padded / lanes * lanes;  // which the compiler then knows
#pragma GCC ivdep
    for (std::size_t i = 0; i < size; ++i) w[i] = each.weight(slots[i]);
    return sum_of_products(w, x, size);
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
