// Sums over rows that metrics are computed from.
#pragma once

#include <cstddef>

#include "loss.hpp"

namespace pqr {

// Weighted sums.
struct Sums {
  double weight = 0.0, loss = 0.0, label = 0.0, prediction = 0.0;
};

// A NaN margin gives a NaN loss.
inline Sums sum_rows(Loss loss, const double* margins, const double* labels, const double* weights,
                     std::size_t size) {
  return with_loss(loss, [=](auto of) {
    Sums sums;
    for (std::size_t r = 0; r < size; ++r) {
      const double margin = margins[r], weight = weights[r];
      sums.weight += weight;
      sums.loss += weight * of.loss(margin, labels[r]);
      sums.label += weight * labels[r];
      sums.prediction += weight * of.link(margin);
    }
    return sums;
  });
}

// Adds weights by bin of margin and label to bins[2 * bin + label], with `count` equal bins over
// [-reach, reach] and one more for `reach` itself. What lies outside goes to the ends.
inline void bin_clicks(double* bins, std::size_t count, double reach, const double* margins,
                       const double* labels, const double* weights, std::size_t size) {
  const double scale = static_cast<double>(count) / (2.0 * reach);
  for (std::size_t r = 0; r < size; ++r) {
    double near = margins[r] > -reach ? margins[r] : -reach;  // also where it is not a number
    near = near < reach ? near : reach;
    const auto bin = static_cast<std::size_t>((near + reach) * scale);
    bins[2 * bin + (labels[r] > 0.0 ? 1 : 0)] += weights[r];
  }
}

// Every click compared with every non-click, by weight; those in one bin are tied.
struct Comparisons {
  double all = 0.0, ordered = 0.0, tied = 0.0;
};

inline Comparisons compare_clicks(const double* bins, std::size_t count) {
  Comparisons found;
  double negatives = 0.0, positives = 0.0;
  for (std::size_t bin = 0; bin <= count; ++bin) {
    const double negative = bins[2 * bin], positive = bins[2 * bin + 1];
    found.ordered += negatives * positive;
    found.tied += negative * positive;
    negatives += negative;
    positives += positive;
  }
  found.all = negatives * positives;
  return found;
}

}  // namespace pqr
