// A slot and its optimizers. Over one coordinate an optimizer is two pure functions,
// weight() and step(): no table, no loop, no row. What concerns all coordinates at
// once (a step count, a scale, a norm) is a few global scalars, moved by end_row().
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <variant>

#include "avx2.hpp"
#include "lanes.hpp"

namespace pqr {

// One coordinate's optimizer state. FTRL-Proximal keeps z and the square root of
// n, because then a step takes one square root instead of two; the others keep one
// sum, in z.
template <class Real>
struct Slot {
  Real z{};
  Real root_n{};
};

// Whether both are 0, or -0. As whole numbers: of floats, compilers make two branches.
inline bool is_initial(const Slot<float>& slot) {
  std::uint32_t bits[2];
  static_assert(sizeof bits == sizeof slot);
  std::memcpy(bits, &slot, sizeof bits);
  return (bits[0] | bits[1]) << 1 == 0;
}

// FTRL-Proximal (Algorithm 2):
//   w = 0                                                  if |z| <= l1
//   w = -(z - sgn(z) l1) / ((beta + sqrt(n)) / alpha + l2)  otherwise
//   sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2
template <class Real>
struct Proximal {
  Real inverse_alpha;
  Real ridge;  // beta / alpha + l2
  Real l1;
  static constexpr Real least = std::numeric_limits<Real>::min();

  template <class V>
  PQR_ALWAYS_INLINE V weight(Slot<V> slot) const {
    const V inside = larger(smaller(slot.z, l1 - V{}), -l1 - V{});  // z itself if |z| <= l1
    // Before the first step z = 0, and so is the divisor where beta = l2 = 0.
    return (inside - slot.z) / larger(slot.root_n * inverse_alpha + ridge, least - V{});
  }

  // `weight` is the slot's weight before the step: sigma pulls towards it.
  template <class V>
  PQR_ALWAYS_INLINE Slot<V> step(Slot<V> slot, V weight, V gradient) const {
    const V root_n = root(slot.root_n * slot.root_n + gradient * gradient);
    const V sigma = (root_n - slot.root_n) * inverse_alpha;
    return {slot.z + (gradient - sigma * weight), root_n};
  }
};

// Weights that are one common factor times a sum of gradients.
template <class Real>
struct Summed {
  Real factor;
  Real rate;

  template <class V>
  PQR_ALWAYS_INLINE V weight(Slot<V> slot) const {
    return factor * slot.z;
  }
  template <class V>
  PQR_ALWAYS_INLINE Slot<V> step(Slot<V> slot, V, V gradient) const {
    return {slot.z + rate * gradient, V{}};
  }
};

class Ftrl {
 public:
  static constexpr bool has_norm = false;
  Ftrl(double alpha, double beta, double l1, double l2)
      : each_{make<float>(alpha, beta, l1, l2)}, bias_{make<double>(alpha, beta, 0.0, l2)} {}

  Proximal<float> each() const { return each_; }
  Proximal<double> bias() const { return bias_; }  // l1 never applies to it
  void end_row(double) {}

 private:
  Proximal<float> each_;
  Proximal<double> bias_;

  template <class Real>
  static Proximal<Real> make(double alpha, double beta, double l1, double l2) {
    return {static_cast<Real>(1.0 / alpha), static_cast<Real>(beta / alpha + l2),
            static_cast<Real>(l1)};
  }
};

// Online gradient descent: theta <- P(theta - eta_t g), with eta_t = eta or
// eta / sqrt(t), and P the projection onto the ball of a radius. Lazily: theta is
// `scale` times what the slots hold, so that projecting touches no slot.
class Ogd {
 public:
  static constexpr bool has_norm = true;
  double rows = 0.0;  // learned
  double scale = 1.0;
  double norm2 = 0.0;  // of what the slots hold, squared

  Ogd(double eta, bool decays, double radius) : eta_(eta), decays_(decays), radius_(radius) {}

  Summed<float> each() const {
    return {static_cast<float>(scale), static_cast<float>(-eta() / scale)};
  }
  Summed<double> bias() const { return {scale, -eta() / scale}; }

  // `change` is what the row added to norm2.
  void end_row(double change) {
    rows += 1.0;
    norm2 = std::fmax(0.0, norm2 + change);
    const double norm = scale * std::sqrt(norm2);
    if (norm > radius_) scale *= radius_ / norm;
  }

  // A scale that has become small would cost digits: the slots then take it over.
  bool wants_rescaling() const { return scale < 1e-6; }
  double take_scale() {
    const double taken = scale;
    norm2 *= scale * scale;
    scale = 1.0;
    return taken;
  }

 private:
  double eta_;
  bool decays_;
  double radius_;

  double eta() const { return decays_ ? eta_ / std::sqrt(rows + 1.0) : eta_; }
};

// FTRL (Algorithm 1) with R = |theta|^2 / 2, over all space or a ball:
//   theta = -eta G, or the point of the ball nearest to it; G the sum of gradients.
class GeneralFtrl {
 public:
  static constexpr bool has_norm = true;
  double norm2 = 0.0;  // of G, squared

  GeneralFtrl(double eta, double radius) : eta_(eta), radius_(radius) {}

  Summed<float> each() const { return {static_cast<float>(factor()), 1.0f}; }
  Summed<double> bias() const { return {factor(), 1.0}; }
  void end_row(double change) { norm2 = std::fmax(0.0, norm2 + change); }

 private:
  double eta_;
  double radius_;

  double factor() const {
    const double norm = eta_ * std::sqrt(norm2);
    return norm > radius_ ? -eta_ * (radius_ / norm) : -eta_;
  }
};

using Optimizer = std::variant<Ftrl, Ogd, GeneralFtrl>;

}  // namespace pqr
