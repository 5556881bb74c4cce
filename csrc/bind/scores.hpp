// Sums over clicks, from arrays of Python.
#pragma once

#include <cstddef>
#include <tuple>

#include "../score.hpp"
#include "arrays.hpp"

namespace pqr::bind {

inline std::size_t check_lengths(const In<double>& margins, const In<double>& labels,
                                 const In<double>& weights) {
  if (margins.size() != labels.size() || margins.size() != weights.size()) {
    refuse("margins, labels and weights differ in length");
  }
  return margins.size();
}

inline ClickBins click_bins(double* bins, std::size_t size, double reach) {
  if (size < 4 || size % 2 != 0) refuse("there must be two sums for each bin");
  return {bins, size / 2 - 1, reach};
}

// Sums of weights, losses, labels and predictions.
inline std::tuple<double, double, double, double> sum_clicks(const In<double>& margins,
                                                             const In<double>& labels,
                                                             const In<double>& weights) {
  const std::size_t size = check_lengths(margins, labels, weights);
  nb::gil_scoped_release release;
  const ClickSums sums = pqr::sum_clicks(margins.data(), labels.data(), weights.data(), size);
  return {sums.weight, sums.loss, sums.label, sums.prediction};
}

inline void bin_clicks(const InOut<double>& bins, double reach, const In<double>& margins,
                       const In<double>& labels, const In<double>& weights) {
  const std::size_t size = check_lengths(margins, labels, weights);
  const ClickBins all = click_bins(bins.data(), bins.size(), reach);
  nb::gil_scoped_release release;
  all.add(margins.data(), labels.data(), weights.data(), size);
}

// Pairs of a click and a non-click: all, those in the right order, those in one bin.
inline std::tuple<double, double, double> rank_clicks(const InOut<double>& bins, double reach) {
  const ClickBins all = click_bins(bins.data(), bins.size(), reach);
  nb::gil_scoped_release release;
  const Ranking ranking = pqr::rank_clicks(all);
  return {ranking.pairs, ranking.ordered, ranking.tied};
}

}  // namespace pqr::bind
