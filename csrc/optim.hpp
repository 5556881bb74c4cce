// A slot and its optimizers. An optimizer is two pure functions over one
// coordinate, weight() and step(); it knows no table, no loop and no row.
#pragma once

#include <cmath>

namespace pqr {

// One coordinate's optimizer state. FTRL-Proximal keeps z and the square root of
// n, because then a step takes one square root instead of two.
template <class Real>
struct Slot {
  Real z = 0;
  Real root_n = 0;
};

template <class Real>
inline bool is_initial(const Slot<Real>& slot) {
  return slot.z == 0 && slot.root_n == 0;
}

// FTRL-Proximal (Algorithm 2):
//   w = 0                                                  if |z| <= l1
//   w = -(z - sgn(z) l1) / ((beta + sqrt(n)) / alpha + l2)  otherwise
//   sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2
template <class Real>
struct Ftrl {
  Real inverse_alpha;
  Real ridge;  // beta / alpha + l2
  Real l1;

  static Ftrl make(double alpha, double beta, double l1, double l2) {
    return {static_cast<Real>(1.0 / alpha), static_cast<Real>(beta / alpha + l2),
            static_cast<Real>(l1)};
  }

  Real weight(Slot<Real> slot) const {
    const Real outside = std::fabs(slot.z) - l1;
    const Real w = -std::copysign(outside, slot.z) / (slot.root_n * inverse_alpha + ridge);
    return outside > 0 ? w : 0;  // also where 0 / 0 stands: beta = l2 = 0 before the first step
  }

  // `weight` is the slot's weight before the step: sigma pulls towards it.
  Slot<Real> step(Slot<Real> slot, Real weight, Real gradient) const {
    const Real root_n = std::sqrt(slot.root_n * slot.root_n + gradient * gradient);
    const Real sigma = (root_n - slot.root_n) * inverse_alpha;
    return {slot.z + (gradient - sigma * weight), root_n};
  }
};

}  // namespace pqr
