// exp, log and the sigmoid of several doubles at once, with the same bits on every machine: a
// library's may differ between processors.
#pragma once

#include <cstdint>

#include "lanes.hpp"

namespace pqr {

using Four = Vector<double, 4>;  // as many as AVX2 has; of wider vectors compilers make slow code
using FourBits = Vector<std::uint64_t, 4>;

PQR_ALWAYS_INLINE inline Four all(double x) { return x - Four{}; }

// NaN stays.
template <class V>
PQR_ALWAYS_INLINE inline V clamped(V x, V low, V high) {
  return larger(low, smaller(high, x));
}

// e^x for x up to 708, to about two units in the last place: x = k ln 2 + r, |r| <= ln 2 / 2, and
// e^r by its series. Below -700 it stays what it is there, 1e-304: that is no denormal number.
PQR_ALWAYS_INLINE inline Four exp_of(Four x) {
  constexpr double log2_e = 1.4426950408889634, ln2_high = 6.93147180369123816490e-01,
                   ln2_low = 1.90821492927058770002e-10;
  constexpr double shift = 0x1.8p52;  // adding it rounds to a whole number, found in the low bits
  x = larger(x, all(-700.0));
  const Four shifted = x * log2_e + shift;
  const Four k = shifted - shift;
  const Four r = (x - k * ln2_high) - k * ln2_low;
  const Four r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;  // in pairs, so that none waits for all
  const Four first = (1.0 + r) + (1.0 / 2 + r * (1.0 / 6)) * r2;
  const Four second = (1.0 / 24 + r * (1.0 / 120)) + (1.0 / 720 + r * (1.0 / 5040)) * r2;
  const Four third =
      (1.0 / 40320 + r * (1.0 / 362880)) + (1.0 / 3628800 + r * (1.0 / 39916800)) * r2;
  const Four sum = (first + second * r4) + (third + (1.0 / 479001600) * r4) * r8;
  return (Four)((FourBits)sum + ((FourBits)shifted << 52));  // adds k to the exponent
}

// ln x for normal x > 0: x = 2^k m, m in [1/sqrt 2, sqrt 2), ln m = 2 artanh((m - 1) / (m + 1)).
PQR_ALWAYS_INLINE inline Four log_of(Four x) {
  constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  constexpr std::uint64_t root_half = 0x3FE6A09E667F3BCD, bias = 1024, two_to_52 = 0x433ull << 52;
  const auto bits = (FourBits)x, biased = (bits - root_half + (bias << 52)) >> 52;  // k + 1024
  const auto m = (Four)(bits - ((biased - bias) << 52));
  const Four exponent = (Four)(biased | two_to_52) - (0x1p52 + bias);  // from 2^52 + k + 1024
  const Four f = (m - 1.0) / (m + 1.0), f2 = f * f;
  const Four f4 = f2 * f2, f8 = f4 * f4;  // in pairs, so that none waits for all
  const Four first = (2.0 / 3 + f2 * (2.0 / 5)) + (2.0 / 7 + f2 * (2.0 / 9)) * f4;
  const Four second = (2.0 / 11 + f2 * (2.0 / 13)) + (2.0 / 15 + f2 * (2.0 / 17)) * f4;
  const Four third = (2.0 / 19 + f2 * (2.0 / 21)) + (2.0 / 23) * f4;
  const Four sum = first + (second + third * f8) * f8;
  return exponent * ln2_high + (exponent * ln2_low + (f * f2 * sum + 2.0 * f));
}

// Of one number.
PQR_ALWAYS_INLINE inline double exp_of(double x) { return exp_of(all(x))[0]; }
PQR_ALWAYS_INLINE inline double log_of(double x) { return log_of(all(x))[0]; }

// 1 / (1 + e^-m); where it is close to 0 it keeps its digits.
PQR_ALWAYS_INLINE inline Four sigmoid_of(Four margin) {
  const Four e = exp_of(-larger(margin, -margin));
  return (margin >= 0.0 ? all(1.0) : e) / (1.0 + e);
}

}  // namespace pqr
