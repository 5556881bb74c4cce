// The two losses. For a margin m and a label y each gives the link (margin ->
// prediction) and the slope (derivative of the loss by the margin).
#pragma once

#include <cmath>

namespace pqr {

// (m - y)^2 / 2, for ratings. Predictions are not clipped.
struct Squared {
  static double link(double margin) { return margin; }
  static double slope(double margin, double label) { return margin - label; }
};

// log(1 + e^-m) for y = 1 and log(1 + e^m) for y = 0 or -1, for clicks.
struct Logistic {
  static double link(double margin) {
    const double e = std::exp(-std::fabs(margin));  // never overflows
    return (margin >= 0.0 ? 1.0 : e) / (1.0 + e);
  }
  static double slope(double margin, double label) {
    return link(margin) - (label > 0.0 ? 1.0 : 0.0);
  }
};

enum class Loss { squared, logistic };

}  // namespace pqr
