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
//             at most 2^14 M^2 - I, which leaves the new w as it is
//   step FTRL g = s x;  d = sqrt(I^2 + (g / alpha)^2) - I;  z += g - d w;  I += d
//
// s is the slope of an expert's loss, h its curvature, V the sum of v x^2 over the row.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "lanes.hpp"
#include "mixture.hpp"

namespace pqr {

constexpr std::size_t paired = experts / 2;  // that have pairs: the last ones

using Eight = Vector<float, experts>;
using Quad = Vector<float, paired>;

// A slot: four experts of a coordinate. A pair or a shared weight has one, a feature has two.
struct Experts {
  float z[paired]{}, info[paired]{};
};
struct FeatureExperts {
  Experts linear, with_pairs;
};

// One where an expert is FTRL, and where it is Kalman. The first has no features.
constexpr Eight ftrl8 = {0, 0, 0, 1, 0, 0, 0, 1}, kalman8 = {0, 1, 1, 0, 1, 1, 1, 0};
constexpr Quad ftrl4 = {0, 0, 0, 1}, kalman4 = {1, 1, 1, 0};
// Prior variances and rates of FTRL are measured: docs/notes/auto-prototype.md. 1 stands for none.
constexpr Eight linear_tau = {1, 1.5f, 10, 1, 1.5f, 10, 100, 1};
constexpr Quad pair_tau = {2, 1, 5, 1};
constexpr float ftrl_alpha = 0.5f, ftrl_beta = 1.0f, ftrl_ridge = ftrl_beta / ftrl_alpha;
constexpr float most_information = 16384;  // above, steps of a common value are lost to rounding

PQR_ALWAYS_INLINE inline Eight joined(Quad first, Quad second) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return Eight{first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3]};
#endif
}
template <int which>
PQR_ALWAYS_INLINE inline Quad half(const Eight& x) {
  return read_as<Quad>(reinterpret_cast<const Quad*>(&x) + which);
}
PQR_ALWAYS_INLINE inline Eight twice(Quad x) { return joined(x, x); }

// A coordinate's value, the same over its scale, which FTRL takes, and the square of its scale.
struct Value {
  float x = 1, scaled = 1, square = 1;
};
PQR_ALWAYS_INLINE inline Value operator*(const Value& a, const Value& b) {
  return {a.x * b.x, a.scaled * b.scaled, a.square * b.square};
}

// What the experts' steps over a row have in common.
struct alignas(sizeof(Eight)) Slopes {
  Eight slope, curvature, variance;
};

// One kind of a row's coordinates, two slots to a vector. The last vector may be padded with a slot
// whose information is minus infinity, so that its weight and its variance are 0.
class RowBlock {
 public:
  std::vector<Experts*> slots;
  std::size_t size = 0;       // slots in use
  bool same = true;           // all have the same value, as in rows of ones
  std::vector<Value> values;  // of each slot, or of all in the first one

  // Which experts take values as they are, not scaled as FTRL does.
  explicit RowBlock(Eight kalman) : kalman_(kalman) {}

  static void reserve(std::vector<Experts*>& some, std::size_t most) {
    if (some.size() < most + 2) some.resize(most + 2);
  }
  void clear(std::size_t most) {
    size = 0;
    reserve(slots, most);
    if (values.size() >= most + 2) return;
    values.resize(most + 2);
    given_.resize(values.size() / 2);
    v_.resize(values.size() / 2 * experts);
  }

  // Adds w x to the margin and v x^2 to the variance, and keeps v. lambda is prior M^2, but for
  // FTRL, whose x is multiplied by `shrink`.
  PQR_ALWAYS_INLINE void weigh(Eight prior, float shrink, Eight& margin, Eight& variance) {
    set_given(prior, shrink);
    float* v = v_.data();
    Eight m = margin, V = variance;
    each_vector([&](Experts* const* at, const Given& given) PQR_ALWAYS_INLINE {
      const Eight now = 1.0f / (given.lambda + info_of(at)), vx = now * given.x;
      write(v, now);
      v += experts;
      m -= z_of(at) * vx;
      V += vx * given.x;
    });
    margin = m;
    variance = V;
  }

  PQR_ALWAYS_INLINE void step(const Slopes& slopes) {
    const Slopes own = slopes;  // which no slot can overlap
    const Eight kalman = kalman_, whole = 1.0f + own.curvature * own.variance;
    const float* v = v_.data();
    each_vector([&](Experts* const* at, const Given& given) PQR_ALWAYS_INLINE {
      const Eight z = z_of(at), info = info_of(at), now = read_as<Eight>(v);
      const Eight g = own.slope * given.x, by = g * (1.0f / ftrl_alpha);
      const Eight hxx = own.curvature * (given.x * given.x);
      const Eight of_kalman = hxx / larger(whole - hxx * now, 1.0f - Eight{});
      const Eight of_ftrl = root(info * info + by * by) - info;
      const Eight d = ftrl8 > 0.0f ? of_ftrl : smaller(of_kalman, given.most - info);
      put(at, z + (g + d * now * (kalman * g + z)), info + d);
      v += experts;
    });
  }

 private:
  // What a vector of coordinates is given: x as the experts see it, lambda, the most information.
  struct alignas(sizeof(Eight)) Given {
    Eight x, lambda, most;
  };
  Eight kalman_;
  Given same_;                // of all vectors, if they are the same
  std::vector<Given> given_;  // of each, if not
  std::vector<float> v_;
  Experts nothing_;

  PQR_ALWAYS_INLINE void set_given(Eight prior, float shrink) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    const Eight ridge = ftrl8 * ftrl_ridge + (1.0f - ftrl8 - kalman_);  // never 0
    const auto given = [&](const Value& a, const Value& b) PQR_ALWAYS_INLINE {
      const auto beside = [](float one, float other)
                              PQR_ALWAYS_INLINE { return joined(one - Quad{}, other - Quad{}); };
      const Eight square = beside(a.square, b.square);
      const Eight scaled = beside(a.scaled * shrink, b.scaled * shrink);
      return Given{kalman_ * beside(a.x, b.x) + ftrl8 * scaled, prior * square + ridge,
                   most_information * square};
    };
    nothing_ = Experts{};
    for (float& info : nothing_.info) info = -infinite;
    slots[size] = &nothing_;
    values[size] = Value{};
    same_ = given(values[0], values[0]);
    for (std::size_t i = 0; !same && i < size; i += 2) {
      given_[i / 2] = given(values[i], values[i + 1]);
    }
  }

  // Calls work(its slots, what it is given) for each vector.
  template <class Work>
  PQR_ALWAYS_INLINE void each_vector(Work work) {
    const Given own = same_;  // which no slot can overlap
    Experts* const* const all = slots.data();
    const std::size_t end = size;
    for (std::size_t i = 0; same && i < end; i += 2) work(all + i, own);
    for (std::size_t i = 0; !same && i < end; i += 2) work(all + i, given_[i / 2]);
  }

  PQR_ALWAYS_INLINE static Eight z_of(Experts* const* at) {
    return joined(read_as<Quad>(at[0]->z), read_as<Quad>(at[1]->z));
  }
  PQR_ALWAYS_INLINE static Eight info_of(Experts* const* at) {
    return joined(read_as<Quad>(at[0]->info), read_as<Quad>(at[1]->info));
  }
  PQR_ALWAYS_INLINE static void put(Experts* const* at, Eight z, Eight info) {
    Experts *const first = at[0], *const second = at[1];
    write(first->z, half<0>(z));
    write(second->z, half<1>(z));
    write(first->info, half<0>(info));
    write(second->info, half<1>(info));
  }
};

}  // namespace pqr
