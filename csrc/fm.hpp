// The factorization machine (Rendle):
//   margin = b + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j
// learned by gradient descent, every coordinate of a row with a step of its own. A feature never
// learned has its initial factors and no linear weight.
#pragma once

#include "descent.hpp"
#include "factor_model.hpp"
#include "optim.hpp"

namespace pqr {

struct FmRule {
  static constexpr bool factors_at_once = true;
  DescentRule linear;  // also of the bias

  // Of a slot z is the weight, and root_n the sum of squared gradients.
  template <class Real>
  struct OfSlot {
    Descent<Real> descent;
    bool adaptive;

    Real weight(Slot<Real> slot) const { return slot.z; }
    Slot<Real> step(Slot<Real> slot, Real weight, Real gradient) const {
      Real sum = slot.root_n;
      const Real z = adaptive ? descent.adaptive(weight, sum, gradient)  // adds to the sum
                              : descent.plain(weight, gradient);
      return {z, sum};
    }
  };

  template <class Real>
  OfSlot<Real> at(Block block, double rows) const {
    Descent<Real> descent = linear.at_row<Real>(rows);
    if (block == Block::bias) descent.l1 = 0;  // l1 never applies to it
    return {descent, linear.adaptive};
  }
  double eta() const { return linear.eta; }
};

using Fm = FactorModel<FmRule>;

}  // namespace pqr
