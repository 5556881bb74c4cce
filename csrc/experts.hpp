// The eight experts of the self-tuning learner and their step over a row's coordinates. All experts
// of a coordinate lie side by side, so vectors run over experts:
//   linear only   bias | K 1.5 | K 10 | FTRL
//   with pairs    K (1.5, 2) | K (10, 1) | K (100, 5) | FTRL with interactions / sqrt(how many)
// K are Kalman experts with prior variances of a row's margin, by linear weights and interactions.
// Every coordinate keeps z and information I, and has the weight w = -z v, v = 1 / (lambda + I).
//
//   lambda    linear n / tau_lin M_i^2     pair C(n,2) / tau_int M_i^2 M_j^2
//             shared C(n,2) / tau_int M_i^2 s^2      FTRL beta / alpha
//   step K    d = h x^2 / max(1, 1 + h (V - v x^2));  z += s x (1 + d v) - d w;  I += d
//             I <= 2^14 M^2, beyond which z shrinks with it, so that w stays
//   step FTRL g = s x;  d = sqrt(I^2 + (g / alpha)^2) - I;  z += g - d w;  I += d
//
// s is the slope of an expert's loss, h its curvature, V the sum of v x^2 over the row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "lanes.hpp"
#include "mixture.hpp"

namespace pqr {

constexpr std::size_t paired = experts / 2;  // that have pairs: the last ones

using Eight = Vector<float, experts>;
using Quad = Vector<float, paired>;

// A slot: all experts of a feature, or the four with pairs of a pair or a shared weight.
template <std::size_t size>
struct Experts {
  float z[size]{}, info[size]{};
};
using FeatureExperts = Experts<experts>;
using PairExperts = Experts<paired>;

// One where an expert is FTRL, and where it is Kalman. The first has no features.
constexpr Eight ftrl8 = {0, 0, 0, 1, 0, 0, 0, 1}, kalman8 = {0, 1, 1, 0, 1, 1, 1, 0};
constexpr Quad ftrl4 = {0, 0, 0, 1}, kalman4 = {1, 1, 1, 0};
constexpr Eight linear_tau = {1, 1.5f, 10, 1, 1.5f, 10, 100, 1};
constexpr Quad pair_tau = {2, 1, 5, 1};
constexpr float ftrl_alpha = 0.5f, ftrl_beta = 1.0f, ftrl_ridge = ftrl_beta / ftrl_alpha;
constexpr float most_information = 16384;  // above, steps of a common value are lost to rounding

// Four experts beside four.
PQR_ALWAYS_INLINE inline Eight joined(Quad first, Quad second) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return Eight{first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3]};
#endif
}
template <int which>
PQR_ALWAYS_INLINE inline Quad half(const Eight& x) {
  typedef float Part __attribute__((vector_size(sizeof(Quad)), may_alias));
  return reinterpret_cast<const Part*>(&x)[which];
}
PQR_ALWAYS_INLINE inline Eight twice(Quad x) { return joined(x, x); }
PQR_ALWAYS_INLINE inline Eight both(float a, float b) { return joined(a - Quad{}, b - Quad{}); }

// What lies in a vector of eight: one slot of a feature, or two of pairs side by side.
struct OfFeatures {
  using Slot = FeatureExperts;
  static constexpr std::size_t each = 1;
  PQR_ALWAYS_INLINE static Eight z(Slot* const* at) { return read_as<Eight>(at[0]->z); }
  PQR_ALWAYS_INLINE static Eight info(Slot* const* at) { return read_as<Eight>(at[0]->info); }
  PQR_ALWAYS_INLINE static void put(Slot* const* at, Eight z, Eight info) {
    Slot* const slot = at[0];
    write(slot->z, z);
    write(slot->info, info);
  }
  PQR_ALWAYS_INLINE static Eight beside(const float* of, std::size_t) { return *of - Eight{}; }
  PQR_ALWAYS_INLINE static Eight rest(Eight) { return Eight{}; }
};
struct OfPairs {
  using Slot = PairExperts;
  static constexpr std::size_t each = 2;
  PQR_ALWAYS_INLINE static Eight z(Slot* const* at) {
    return joined(read_as<Quad>(at[0]->z), read_as<Quad>(at[1]->z));
  }
  PQR_ALWAYS_INLINE static Eight info(Slot* const* at) {
    return joined(read_as<Quad>(at[0]->info), read_as<Quad>(at[1]->info));
  }
  PQR_ALWAYS_INLINE static void put(Slot* const* at, Eight z, Eight info) {
    Slot *const first = at[0], *const second = at[1];
    write(first->z, half<0>(z));
    write(second->z, half<1>(z));
    write(first->info, half<0>(info));
    write(second->info, half<1>(info));
  }
  PQR_ALWAYS_INLINE static Eight beside(const float* of, std::size_t next) {
    return both(of[0], of[next]);
  }
  PQR_ALWAYS_INLINE static Eight rest(Eight x) { return joined(half<0>(x), Quad{}); }
};

// Whether any lane of a comparison is true.
template <class Mask>
PQR_ALWAYS_INLINE inline bool any(Mask mask) {
  std::uint64_t words[sizeof mask / 8], found = 0;
  std::memcpy(words, &mask, sizeof mask);
  for (const std::uint64_t word : words) found |= word;
  return found != 0;
}

// A coordinate's value, the same over its scale, which FTRL takes, and the square of its scale.
struct Value {
  float x, scaled, square;
};

// What a row's coordinates have in common: their priors, how experts see values, and, for a step,
// slopes.
struct alignas(sizeof(Eight)) Common {
  Eight prior, ridge, kalman,
      ftrl;  // lambda = prior M^2 + ridge; x as seen: kalman x + ftrl scaled
  Eight slope{}, curvature{}, variance{};
};

// One kind of a row's coordinates, in vectors of eight, of which four make a group: arrays are
// filled up with a slot of nothing, whose x is 0. Where all have the same value, as in rows of
// ones, `values` are not read.
template <class Of>
struct Terms {
  using Slot = typename Of::Slot;
  static constexpr std::size_t each = Of::each, group = 4 * each;
  std::vector<Slot*> slots;
  std::vector<Value> values;
  std::vector<float> v;
  std::size_t size = 0;
  bool same = true;
  Value value{1, 1, 1};  // of all, if it is the same
  Slot nothing;          // all zeros, and stays so

  static void reserve(std::vector<Slot*>& some, std::size_t most) {
    if (some.size() < most + group) some.resize(most + group);
  }
  void clear(std::size_t most) {
    size = 0;
    reserve(slots, most);
    if (values.size() >= most + group) return;
    values.resize(most + group);
    v.resize((most + group) * (experts / each));
  }
  PQR_ALWAYS_INLINE void finish() {
    for (std::size_t i = size; i % group != 0; ++i) {
      slots[i] = &nothing;
      values[i] = {0.0f, 0.0f, 1.0f};
    }
  }

  // Adds w x to the margin and v x^2 to the variance, and keeps v.
  PQR_ALWAYS_INLINE void weigh(const Common& common, Eight& margin, Eight& variance) {
    same ? weigh<true>(common, margin, variance) : weigh<false>(common, margin, variance);
  }
  PQR_ALWAYS_INLINE void step(const Common& common) {
    same ? step<true>(common) : step<false>(common);
  }

 private:
  template <bool same>
  PQR_ALWAYS_INLINE void weigh(const Common& common, Eight& margin, Eight& variance) {
    Slot* const* const all = slots.data();
    float* const kept = v.data();
    const Eight one = x_of(common, value), prior = common.prior, ridge = common.ridge;
    const Eight lambda = prior * value.square + ridge;
    Eight m = margin, V = variance;
    const auto vector = [&](std::size_t i, Eight x) PQR_ALWAYS_INLINE {
      const Eight now =
          1.0f / ((same ? lambda : prior * square_at<same>(i) + ridge) + Of::info(all + i));
      const Eight vx = now * x;
      write(kept + i * (experts / each), now);
      m -= Of::z(all + i) * vx;
      V += vx * x;
    };
    const std::size_t end = size;
    std::size_t i = 0;
    for (; same && i + each <= end; i += each) vector(i, one);
    for (; i < end; i += each) vector(i, x_at<same>(i, common));
    margin = m;
    variance = V;
  }

  template <bool same>
  PQR_ALWAYS_INLINE void step(const Common& common) {
    const Common own = common;  // which no slot can overlap
    const Eight one = x_of(own, value), most = cap_of(value.square - Eight{});
    const std::size_t end = size;
    auto over = Eight{} > Eight{};
    std::size_t i = 0;
    for (; same && i + group <= end; i += group) {
      over |= step_group<same>(i, own, most, one, one, one, one);
    }
    for (; i < end; i += group) {
      over |= step_group<same>(i, own, most, x_at<same>(i, own), x_at<same>(i + each, own),
                               x_at<same>(i + 2 * each, own), x_at<same>(i + 3 * each, own));
    }
    if (__builtin_expect(any(over), 0)) cap<same>(common);
  }

  PQR_ALWAYS_INLINE static Eight x_of(const Common& common, const Value& value) {
    return common.kalman * value.x + common.ftrl * value.scaled;
  }
  template <bool same>
  PQR_ALWAYS_INLINE Eight x_at(std::size_t i, const Common& common) const {
    if (same) {
      const Eight x = x_of(common, value);
      return i + each <= size ? x : i < size ? Of::rest(x) : Eight{};
    }
    constexpr std::size_t next = sizeof(Value) / sizeof(float);
    return common.kalman * Of::beside(&values[i].x, next) +
           common.ftrl * Of::beside(&values[i].scaled, next);
  }
  template <bool same>
  PQR_ALWAYS_INLINE Eight square_at(std::size_t i) const {
    if (same) return value.square - Eight{};
    return Of::beside(&values[i].square, sizeof(Value) / sizeof(float));
  }

  // Only two of eight experts are FTRL: one square root serves four vectors. Returns where
  // information is now above its cap.
  template <bool same>
  PQR_ALWAYS_INLINE auto step_group(std::size_t i, const Common& common, Eight most, Eight x0,
                                    Eight x1, Eight x2, Eight x3) {
    Slot* const* const at = slots.data() + i;
    const Eight s = common.slope;
    const Eight i0 = Of::info(at), i1 = Of::info(at + each), i2 = Of::info(at + 2 * each),
                i3 = Of::info(at + 3 * each);
    const Eight info = ftrl_lanes(i0, i1, i2, i3);
    const Eight g = ftrl_lanes(s * x0, s * x1, s * x2, s * x3) * (1.0f / ftrl_alpha);
    const Eight d = root(info * info + g * g) - info;
    return step_vector<same>(i, common, most, x0, i0, shuffled<0, 0, 0, 0, 4, 4, 4, 4>(d, d)) |
           step_vector<same>(i + each, common, most, x1, i1,
                             shuffled<1, 1, 1, 1, 5, 5, 5, 5>(d, d)) |
           step_vector<same>(i + 2 * each, common, most, x2, i2,
                             shuffled<2, 2, 2, 2, 6, 6, 6, 6>(d, d)) |
           step_vector<same>(i + 3 * each, common, most, x3, i3,
                             shuffled<3, 3, 3, 3, 7, 7, 7, 7>(d, d));
  }
  PQR_ALWAYS_INLINE static Eight ftrl_lanes(Eight a, Eight b, Eight c, Eight d) {
    const Eight ab = shuffled<3, 3, 11, 11, 7, 7, 15, 15>(a, b);
    const Eight cd = shuffled<3, 3, 11, 11, 7, 7, 15, 15>(c, d);
    return shuffled<0, 2, 8, 10, 4, 6, 12, 14>(ab, cd);
  }
  template <bool same>
  PQR_ALWAYS_INLINE auto step_vector(std::size_t i, const Common& common, Eight most, Eight x,
                                     Eight info, Eight by_ftrl) {
    Slot* const* const at = slots.data() + i;
    const Eight now = read_as<Eight>(v.data() + i * (experts / each)), z = Of::z(at);
    const Eight g = common.slope * x, xx = x * x, hxx = common.curvature * xx;
    const Eight spread = 1.0f + common.curvature * (common.variance - now * xx);
    const Eight d = ftrl8 > 0.0f ? by_ftrl : hxx / spread;
    const Eight gv = common.kalman * g * now, next = info + d;
    Of::put(at, z + (g + (gv * d + d * (z * now))), next);
    return next > (same ? most : cap_of(square_at<same>(i)));
  }

  PQR_ALWAYS_INLINE static Eight cap_of(Eight square) {
    const Eight infinite = std::numeric_limits<float>::infinity() - Eight{};
    return ftrl8 > 0.0f ? infinite : most_information * square;
  }
  template <bool same>
  PQR_ALWAYS_INLINE void cap(const Common& common) {
    for (std::size_t i = 0; i < size; i += each) {
      Slot* const* const at = slots.data() + i;
      const Eight square = square_at<same>(i), most = cap_of(square);
      const Eight lambda = common.prior * square + common.ridge, z = Of::z(at), info = Of::info(at);
      const Eight shrunk = z * ((lambda + most) / (lambda + info));
      Of::put(at, info > most ? shrunk : z, smaller(info, most));
    }
  }
};

}  // namespace pqr
