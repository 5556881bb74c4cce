// DiFacto (Li et al.): a factorization machine whose memory follows frequency.
//   margin = b + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j
// Linear weights learn by FTRL-Proximal, factors by AdaGrad. How many factors a feature has grows
// with the number of rows it was learned in; a product ends with the shorter vector; and factors
// take part only while w_i is not zero. A feature never learned weighs nothing.
#pragma once

#include "factor_model.hpp"
#include "optim.hpp"

namespace pqr {

struct DifactoRule {
  static constexpr bool factors_at_once = false;
  Ftrl linear;  // also of the bias

  template <class Real>
  Proximal<Real> at(Block block, double) const {
    return linear.at<Real>(block);
  }
  double eta() const { return 0.0; }  // its steps are bounded
};

using Difacto = FactorModel<DifactoRule>;

}  // namespace pqr
