// The arithmetic of one row over contiguous arrays, in loops that vectorise. The
// same source is compiled for AVX2 and for any machine, and picked at run time;
// every operation rounds once and sums have a fixed shape, so both give the same bits.
#pragma once

#include <cstddef>

#include "avx2.hpp"
#include "optim.hpp"

#define PQR_INLINE inline __attribute__((always_inline))

namespace pqr {

constexpr std::size_t lanes = 8;  // arrays are padded to a multiple of it, with x = 0

// The row's sum: `lanes` strided partial sums, then a fixed tree.
PQR_INLINE double sum_of_products(const float* w, const float* x, std::size_t size) {
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

// `Each` is an optimizer as one coordinate sees it.
template <class Each>
struct Kernel {
  // w = weight(slot); returns w . x
  static PQR_INLINE double weigh_any(const Each& each, const Slot<float>* __restrict slots,
                                     const float* __restrict x, float* __restrict w,
                                     std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) w[i] = each.weight(slots[i]);
    return sum_of_products(w, x, size);
  }

  // slot = step(slot, w, slope * x)
  static PQR_INLINE void step_any(const Each& each, Slot<float>* __restrict slots,
                                  const float* __restrict x, const float* __restrict w, float slope,
                                  std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) slots[i] = each.step(slots[i], w[i], slope * x[i]);
  }

#ifdef PQR_AVX2
  PQR_AVX2 static double weigh_avx2(const Each& each, const Slot<float>* slots, const float* x,
                                    float* w, std::size_t size) {
    return weigh_any(each, slots, x, w, size);
  }
  PQR_AVX2 static void step_avx2(const Each& each, Slot<float>* slots, const float* x,
                                 const float* w, float slope, std::size_t size) {
    step_any(each, slots, x, w, slope, size);
  }
#endif

  static double weigh(bool avx2, const Each& each, const Slot<float>* slots, const float* x,
                      float* w, std::size_t size) {
#ifdef PQR_AVX2
    if (avx2) return weigh_avx2(each, slots, x, w, size);
#endif
    (void)avx2;
    return weigh_any(each, slots, x, w, size);
  }

  static void step(bool avx2, const Each& each, Slot<float>* slots, const float* x, const float* w,
                   float slope, std::size_t size) {
#ifdef PQR_AVX2
    if (avx2) return step_avx2(each, slots, x, w, slope, size);
#endif
    (void)avx2;
    step_any(each, slots, x, w, slope, size);
  }
};

}  // namespace pqr
