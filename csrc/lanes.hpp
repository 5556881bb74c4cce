// Floats side by side, as many as the machine takes at a time. Every operation rounds as that of
// one float does, and sums have `lanes` partial sums everywhere: all machines give the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

// PQR_PORTABLE leaves it out, as on other machines.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(PQR_PORTABLE)
#define PQR_AVX2 __attribute__((target("avx2")))
#endif

// For functions and lambdas: compiled into their caller, for the machine that it is compiled for.
#define PQR_ALWAYS_INLINE __attribute__((always_inline))

namespace pqr {

constexpr std::size_t lanes = 8;  // floats of AVX2; arrays are padded to a multiple, with x = 0

template <class T, std::size_t size>
struct VectorOf {
  typedef T Type __attribute__((vector_size(size * sizeof(T))));
};
template <class T, std::size_t size>
using Vector = typename VectorOf<T, size>::Type;

// A vector in memory. Unlike loops over arrays, these leave no question whether two overlap.
template <class V, class T>
PQR_ALWAYS_INLINE inline V read_as(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
PQR_ALWAYS_INLINE inline void write(T* to, V v) {
  std::memcpy(static_cast<void*>(to), &v, sizeof v);
}

// The larger and the smaller of each two, |x| and the square root, of numbers or vectors of floats.
template <class V>
PQR_ALWAYS_INLINE inline V larger(V x, V y) {
  return x > y ? x : y;
}
template <class V>
PQR_ALWAYS_INLINE inline V smaller(V x, V y) {
  return x < y ? x : y;
}
template <class V>
PQR_ALWAYS_INLINE inline V magnitude(V x) {
  return (V)((decltype(x < x))x & 0x7FFFFFFF);
}
PQR_ALWAYS_INLINE inline float root(float x) { return std::sqrt(x); }
PQR_ALWAYS_INLINE inline double root(double x) { return std::sqrt(x); }
template <class V>
PQR_ALWAYS_INLINE inline V root(V x) {
  for (std::size_t l = 0; l < sizeof x / sizeof x[0]; ++l) x[l] = std::sqrt(x[l]);
  return x;
}

// The elements `from` of both vectors, where the first vector's come before the second's.
template <int... from, class V>
PQR_ALWAYS_INLINE inline V shuffled(V first, V second) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(first, second, from...);
#else
  return __builtin_shuffle(first, second, decltype(first < second){from...});
#endif
}

// A row's sum: `lanes` strided partial sums, then a fixed tree. `Lanes` is an array or a vector.
template <class Lanes>
PQR_ALWAYS_INLINE inline double sum_of_lanes(const Lanes& lane) {
  const double even = (double{lane[0]} + lane[4]) + (double{lane[2]} + lane[6]);
  const double odd = (double{lane[1]} + lane[5]) + (double{lane[3]} + lane[7]);
  return even + odd;
}
PQR_ALWAYS_INLINE inline double sum_of_products(const float* w, const float* x, std::size_t size) {
  float lane[lanes] = {};
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) lane[l] += w[i + l] * x[i + l];
  }
  return sum_of_lanes(lane);
}

inline bool has_avx2() {
#ifdef PQR_AVX2
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

// How many floats a vector has.
template <std::size_t width>
using Width = std::integral_constant<std::size_t, width>;

#ifdef PQR_AVX2
template <class Work>
PQR_AVX2 auto with_avx2(const Work& work) {
  const Work own = work;  // which nothing else can reach, so that loops keep it in registers
  return own(Width<8>{});
}
#endif

// Does the work, which is a lambda that is PQR_ALWAYS_INLINE and is given the Width.
template <class Work>
inline auto vectorised(bool avx2, const Work& work) {
#ifdef PQR_AVX2
  if (avx2) return with_avx2(work);
#endif
  (void)avx2;
  return work(Width<4>{});
}

}  // namespace pqr
