// Vector code that is compiled for AVX2 beside what runs on any machine, and picked at run time.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define PQR_AVX2 __attribute__((target("avx2")))
#endif

namespace pqr {

inline bool has_avx2() {
#ifdef PQR_AVX2
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

}  // namespace pqr
