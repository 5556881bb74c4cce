// Floats side by side, as many as the machine takes at a time. Every operation rounds as that of
// one float does, and sums have `lanes` parts everywhere: all machines give the same bits.
#pragma once

#include <cmath>
#include <cstddef>

#include "avx2.hpp"

namespace pqr {

constexpr std::size_t lanes = 8;  // arrays are padded to a multiple of it, with x = 0

template <class T, std::size_t size>
struct VectorOf {
  typedef T Type __attribute__((vector_size(size * sizeof(T))));
};
template <class T, std::size_t size>
using Vector = typename VectorOf<T, size>::Type;

// |x|, with_sign(x, y) = |x| sgn(y) and the square root, of a number or a vector of floats.
PQR_ALWAYS_INLINE inline float magnitude(float x) { return std::fabs(x); }
PQR_ALWAYS_INLINE inline double magnitude(double x) { return std::fabs(x); }
template <class V>
PQR_ALWAYS_INLINE inline V magnitude(V x) {
  return (V)((decltype(x < x))x & 0x7FFFFFFF);
}
PQR_ALWAYS_INLINE inline float with_sign(float x, float y) { return std::copysign(x, y); }
PQR_ALWAYS_INLINE inline double with_sign(double x, double y) { return std::copysign(x, y); }
template <class V>
PQR_ALWAYS_INLINE inline V with_sign(V x, V y) {
  using Bits = decltype(x < x);
  return (V)(((Bits)x & 0x7FFFFFFF) | ((Bits)y & ~0x7FFFFFFF));
}
PQR_ALWAYS_INLINE inline float root(float x) { return std::sqrt(x); }
PQR_ALWAYS_INLINE inline double root(double x) { return std::sqrt(x); }
template <class V>
PQR_ALWAYS_INLINE inline V root(V x) {
  for (std::size_t l = 0; l < sizeof x / sizeof x[0]; ++l) x[l] = std::sqrt(x[l]);
  return x;
}

// Those numbered `from`, where the first vector's come before the second's.
template <int... from, class V>
PQR_ALWAYS_INLINE inline V shuffled(V first, V second) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(first, second, from...);
#else
  return __builtin_shuffle(first, second, decltype(first < second){from...});
#endif
}

// A row's sum: `lanes` strided partial sums, then a fixed tree. `Part` is an array or a vector.
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

}  // namespace pqr
