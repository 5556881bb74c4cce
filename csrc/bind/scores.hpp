// Losses and sums over rows, from Python arrays.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>

#include "../loss.hpp"
#include "../score.hpp"
#include "arrays.hpp"
#include "rows.hpp"

namespace pqr::bind {

inline std::size_t check_lengths(const In<double>& margins, const In<double>& labels,
                                 const In<double>& weights) {
  if (margins.size() != labels.size() || margins.size() != weights.size()) {
    refuse("margins, labels and weights differ in length");
  }
  return margins.size();
}

// Sums of weights, losses, labels and predictions.
inline std::tuple<double, double, double, double> sum_rows(const std::string& loss,
                                                           const In<double>& margins,
                                                           const In<double>& labels,
                                                           const In<double>& weights) {
  const std::size_t size = check_lengths(margins, labels, weights);
  const Loss chosen = loss_named(loss);
  nb::gil_scoped_release release;
  const Sums sums = pqr::sum_rows(chosen, margins.data(), labels.data(), weights.data(), size);
  return {sums.weight, sums.loss, sums.label, sums.prediction};
}

// Prediction, loss, slope and curvature of one row.
inline std::tuple<double, double, double, double> loss_at(const std::string& loss, double margin,
                                                          double label) {
  return with_loss(loss_named(loss), [=](auto of) {
    return std::make_tuple(of.link(margin), of.loss(margin, label), of.slope(margin, label),
                           of.curvature(margin, label));
  });
}

// How many equal bins there are.
inline std::size_t bins_in(const InOut<double>& bins) {
  if (bins.size() < 4 || bins.size() % 2 != 0) refuse("there must be two sums for each bin");
  return bins.size() / 2 - 1;
}

inline void bin_clicks(const InOut<double>& bins, double reach, const In<double>& margins,
                       const In<double>& labels, const In<double>& weights) {
  const std::size_t size = check_lengths(margins, labels, weights);
  const std::size_t count = bins_in(bins);
  nb::gil_scoped_release release;
  pqr::bin_clicks(bins.data(), count, reach, margins.data(), labels.data(), weights.data(), size);
}

inline std::tuple<double, double, double> compare_clicks(const InOut<double>& bins) {
  const std::size_t count = bins_in(bins);
  nb::gil_scoped_release release;
  const Comparisons found = pqr::compare_clicks(bins.data(), count);
  return {found.all, found.ordered, found.tied};
}

}  // namespace pqr::bind
