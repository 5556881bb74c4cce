// The eight experts of the self-tuning learner and their step over one coordinate. All experts of a
// coordinate lie side by side in one slot, so vectors run over experts:
//   linear only   bias | K 1.5 | K 10 | FTRL
//   with pairs    K (1.5, 2) | K (10, 1) | K (100, 5) | FTRL with interactions / sqrt(how many)
// K are Kalman experts with prior variances of a row's margin, by linear weights and interactions.
// Every coordinate keeps z and information I, and has the weight w = -z v with v = 1 / (lambda +
// I).
//
//   lambda    linear n / tau_lin M_i^2     pair C(n,2) / tau_int M_i^2 M_j^2
//             shared C(n,2) / tau_int M_i^2 s^2      FTRL beta / alpha
//   step K    d = h x^2 / max(1, 1 + h (V - v x^2));  z += s x (1 + d v) - d w;  I += d
//             I <= 2^14 M^2, beyond which z shrinks with it, so that w stays
//   step FTRL g = s x;  d = sqrt(I^2 + (g / alpha)^2) - I;  z += g - d w;  I += d
//
// s is the slope of an expert's loss, h its curvature, V the sum of v x^2 over the row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "avx2.hpp"
#include "lanes.hpp"
#include "mixture.hpp"

namespace pqr {

constexpr std::size_t paired = 4;  // experts with interactions: the last ones

using Linear8 = Vector<float, experts>;
using Pair4 = Vector<float, paired>;

// One where an expert is by FTRL, and where it is by Kalman.
constexpr Linear8 ftrl8 = {0, 0, 0, 1, 0, 0, 0, 1}, kalman8 = {0, 1, 1, 0, 1, 1, 1, 0};
constexpr Pair4 ftrl4 = {0, 0, 0, 1}, kalman4 = {1, 1, 1, 0};
constexpr float alpha = 0.5f, beta = 1.0f;  // of FTRL
constexpr float most_information = 16384;   // in float32 steps of a common value round away above

// A slot: of eight experts one cache line, of four half of one. Arrays, because a vector in memory
// is aligned as the compiler's usual target has it, not as AVX2 does.
template <std::size_t size>
struct alignas(2 * size * sizeof(float)) Experts {
  float z[size]{};
  float info[size]{};
};
// The expert without features has no part in a linear slot: its z is the feature's mean square.
using LinearSlot = Experts<experts>;
using PairSlot = Experts<paired>;

// Whether any lane of a comparison is true.
template <class Mask>
PQR_ALWAYS_INLINE inline bool any(Mask mask) {
  std::uint64_t words[sizeof mask / 8], all = 0;
  std::memcpy(words, &mask, sizeof mask);
  for (const std::uint64_t word : words) all |= word;
  return all != 0;
}

// What a row's step needs, by expert.
template <class V>
struct Slopes {
  V slope, curvature, variance;
};

// Two pairs at a time lie in vectors of eight, so what is by FTRL follows from the lane.
template <class V>
PQR_ALWAYS_INLINE inline V is_ftrl();
template <>
PQR_ALWAYS_INLINE inline Linear8 is_ftrl<Linear8>() {
  return ftrl8;
}
template <>
PQR_ALWAYS_INLINE inline Pair4 is_ftrl<Pair4>() {
  return ftrl4;
}

template <class V>
PQR_ALWAYS_INLINE inline void step(V& z, V& info, V v, V x, const Slopes<V>& row, V cap, V lambda) {
  const V ftrl = is_ftrl<V>();
  const V w = -z * v, g = row.slope * x, x2 = x * x;
  const V spread = row.curvature * (row.variance - v * x2);
  const V by_kalman = row.curvature * x2 / (1.0f + larger(spread, V{}));
  const V scaled = g * (1.0f / alpha);
  const V by_ftrl = root(info * info + scaled * scaled) - info;
  const V d = ftrl > 0.0f ? by_ftrl : by_kalman;
  const V gv = ftrl > 0.0f ? V{} : g * v;
  z += g + (gv * d - d * w);
  const V next = info + d;
  info = smaller(next, cap);
  if (any(next > cap)) z = next > cap ? z * ((lambda + info) / (lambda + next)) : z;
}

template <std::size_t size, class V>
PQR_ALWAYS_INLINE inline void step_slot(Experts<size>& slot, V v, V x, const Slopes<V>& row, V cap,
                                        V lambda) {
  V z = read_as<V>(slot.z), info = read_as<V>(slot.info);
  step(z, info, v, x, row, cap, lambda);
  write(slot.z, z);
  write(slot.info, info);
}

}  // namespace pqr
