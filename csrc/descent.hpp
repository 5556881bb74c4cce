// Gradient descent over one coordinate, for models that are not linear in their
// weights. Every step is proximal (FOBOS): down the gradient, then towards zero.
//   rate = eta (fixed), eta / sqrt(t) at row t, or eta / (beta + sqrt(n)) with n the
//          sum of g^2 (AdaGrad)
//   u    = w - rate g
//   w    = sgn(u) max(|u| - rate l1, 0) / (1 + rate l2)
#pragma once

#include <cmath>

namespace pqr {

// As one coordinate sees it.
template <class Real>
struct Descent {
  Real eta, beta, l1, l2;

  // `n` is the coordinate's sum of squared gradients; only AdaGrad keeps one.
  Real adaptive(Real w, Real& n, Real gradient) const {
    n += gradient * gradient;
    return moved(w, gradient, eta / (beta + std::sqrt(n)));
  }
  Real plain(Real w, Real gradient) const { return moved(w, gradient, eta); }

 private:
  Real moved(Real w, Real gradient, Real rate) const {
    const Real u = w - rate * gradient;
    const Real outside = std::fabs(u) - rate * l1;
    const Real kept = outside > 0 ? std::copysign(outside, u) : 0;
    return l2 == 0 ? kept : kept / (1 + rate * l2);
  }
};

struct DescentRule {
  bool adaptive;
  bool decays;  // with the square root of the rows, unless adaptive
  double eta, beta, l1, l2;

  template <class Real>
  Descent<Real> at_row(double rows) const {
    const double now = decays && !adaptive ? eta / std::sqrt(rows + 1.0) : eta;
    return {static_cast<Real>(now), static_cast<Real>(beta), static_cast<Real>(l1),
            static_cast<Real>(l2)};
  }
};

}  // namespace pqr
