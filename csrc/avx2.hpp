// Code that is compiled for AVX2 beside what runs on any machine, and picked at run time.
#pragma once

#include <cstddef>
#include <type_traits>

// PQR_PORTABLE leaves it out, as on other machines.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(PQR_PORTABLE)
#define PQR_AVX2 __attribute__((target("avx2")))
#endif

// For functions and lambdas: as a part of whoever calls them, for whichever machine that is.
#define PQR_ALWAYS_INLINE __attribute__((always_inline))

namespace pqr {

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

// Work within work that has been given the Width.
template <std::size_t width, class Work>
PQR_ALWAYS_INLINE inline auto vectorised(Width<width> at_a_time, const Work& work) {
  return work(at_a_time);
}

}  // namespace pqr
