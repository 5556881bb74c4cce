// The losses: the only place that names one. For a margin m and a label y each has
//   takes      whether a label fits, and `wants`, the end of the message where it does not
//   kept       the label as rows store it
//   link       margin -> prediction
//   loss       what is minimised; 0 is the least that any prediction reaches
//   slope      its derivative by the margin
//   curvature  its second derivative
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace pqr {

enum class Loss : std::uint8_t { logistic, squared, poisson };

// log(1 + e^-m) for y = 1 and log(1 + e^m) for y = 0 or -1, for clicks.
struct Logistic {
  static constexpr const char* name = "logistic";
  static constexpr const char* wants = "is not a click: logistic loss takes 0/1 or -1/1";
  static bool takes(double label) { return label == 0.0 || std::fabs(label) == 1.0; }
  static double kept(double label) { return label > 0.0 ? 1.0 : 0.0; }
  static double link(double margin) {
    const double e = std::exp(-std::fabs(margin));  // never overflows
    return (margin >= 0.0 ? 1.0 : e) / (1.0 + e);
  }
  static double loss(double margin, double label) {
    const double e = std::exp(-std::fabs(margin));
    const double s = label > 0.0 ? -margin : margin;
    return std::log1p(e) + (s > 0.0 ? s : 0.0);
  }
  static double slope(double margin, double label) { return link(margin) - kept(label); }
  static double curvature(double margin, double) {
    const double e = std::exp(-std::fabs(margin));
    return e / ((1.0 + e) * (1.0 + e));
  }
};

// (m - y)^2 / 2, for ratings. Predictions are not clipped.
struct Squared {
  static constexpr const char* name = "squared";
  static constexpr const char* wants = "is not a finite number, as squared loss needs";
  static bool takes(double label) { return std::isfinite(label); }
  static double kept(double label) { return label; }
  static double link(double margin) { return margin; }
  static double loss(double margin, double label) {
    return (margin - label) * (margin - label) / 2.0;
  }
  static double slope(double margin, double label) { return margin - label; }
  static double curvature(double, double) { return 1.0; }
};

// Half the deviance, e^m - y m - y + y log y, for counts. Beyond margins of +-`reach` the curve
// goes on as a straight line: it stays convex, and neither predictions nor slopes overflow.
struct Poisson {
  static constexpr const char* name = "poisson";
  static constexpr const char* wants =
      "is not a count: poisson loss takes finite numbers from 0 on";
  static constexpr double reach = 30.0;  // predictions from 1e-13 to 1e13
  static bool takes(double label) { return label >= 0.0 && std::isfinite(label); }
  static double kept(double label) { return label; }
  static double link(double margin) { return std::exp(near(margin)); }
  static double loss(double margin, double label) {
    const double mean = link(margin);
    const double best = label > 0.0 ? label * std::log(label) - label : 0.0;
    return mean * (1.0 + margin - near(margin)) - label * margin + best;
  }
  static double slope(double margin, double label) { return link(margin) - label; }
  static double curvature(double margin, double) { return link(margin); }

 private:
  static double near(double margin) { return std::clamp(margin, -reach, reach); }
};

// Calls `work` with the trait of a loss. The compiler warns of a loss without a case here.
template <class Work>
auto with_loss(Loss loss, Work work) {
  switch (loss) {
    case Loss::logistic:
      return work(Logistic{});
    case Loss::squared:
      return work(Squared{});
    case Loss::poisson:
      return work(Poisson{});
  }
  __builtin_unreachable();
}

inline constexpr std::array all_losses{Loss::logistic, Loss::squared, Loss::poisson};

inline const char* name_of(Loss loss) {
  return with_loss(loss, [](auto of) { return of.name; });
}
inline const char* wants(Loss loss) {
  return with_loss(loss, [](auto of) { return of.wants; });
}
inline bool takes(Loss loss, double label) {
  return with_loss(loss, [=](auto of) { return of.takes(label); });
}
inline double kept(Loss loss, double label) {
  return with_loss(loss, [=](auto of) { return of.kept(label); });
}
inline double link(Loss loss, double margin) {
  return with_loss(loss, [=](auto of) { return of.link(margin); });
}
inline double slope(Loss loss, double margin, double label) {
  return with_loss(loss, [=](auto of) { return of.slope(margin, label); });
}

}  // namespace pqr
