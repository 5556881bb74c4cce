// Rows from Python arrays: views after a check, or canonical copies.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../loss.hpp"
#include "../parallel.hpp"
#include "../row.hpp"
#include "arrays.hpp"
#include "signals.hpp"

namespace pqr::bind {

using RowArrays = std::tuple<Out<std::int64_t>, Out<std::uint32_t>, Out<float>, Out<double>,
                             Out<float>, Out<std::int64_t>>;

inline RowArrays give_rows(RowBuffer&& rows) {
  return {give(std::move(rows.indptr)), give(std::move(rows.indices)), give(std::move(rows.values)),
          give(std::move(rows.labels)), give(std::move(rows.weights)), give(std::move(rows.lines))};
}

// What memory safety needs in every call. That indices rise, and the rest, is checked when a Batch
// is made.
inline void check_indptr(const In<std::int64_t>& indptr, std::size_t entries) {
  const std::int64_t* at = indptr.data();
  const std::size_t size = indptr.size();
  if (size == 0 || at[0] != 0) refuse("indptr must start with 0");
  for (std::size_t r = 1; r < size; ++r) {
    if (at[r] < at[r - 1]) refuse(in_row(r - 1, "indptr must not fall"));
  }
  if (static_cast<std::size_t>(at[size - 1]) != entries) refuse("indptr must end at len(indices)");
}

inline Rows view(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                 const In<float>& values) {
  if (values.size() != indices.size()) refuse("indices and values differ in length");
  check_indptr(indptr, indices.size());
  return {indptr.data(), indices.data(), values.data(), nullptr, nullptr, indptr.size() - 1};
}

inline Rows view(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                 const In<float>& values, const In<double>& labels, const In<float>& weights) {
  Rows rows = view(indptr, indices, values);
  if (labels.size() != rows.size || weights.size() != rows.size) {
    refuse("labels and weights must have one entry per row");
  }
  rows.labels = labels.data();
  rows.weights = weights.data();
  return rows;
}

inline void check_weight(std::size_t row, double weight) {
  if (!is_weight(static_cast<float>(weight))) {
    refuse(in_row(row, "weight " + shown(weight) + " must be finite and not negative"));
  }
}

inline void check_label(std::size_t row, Loss loss, double label) {
  if (std::isnan(label)) refuse(in_row(row, "there is no label to learn from"));
  if (!takes(loss, label)) refuse(in_row(row, "label " + shown(label) + " " + wants(loss)));
}

// Every row's label and weight.
inline void check_each_target(Loss loss, const double* labels, const float* weights,
                              std::size_t size) {
  const std::size_t good = with_loss(loss, [=](auto of) {
    std::size_t r = 0;
    while (r < size && of.takes(labels[r]) && is_weight(weights[r])) ++r;
    return r;
  });
  if (good == size) return;
  check_label(good, loss, labels[good]);
  check_weight(good, weights[good]);
}

// A Batch is canonical, finite, and weighted by numbers >= 0.
inline void check_rows(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                       const In<float>& values, const In<double>& labels,
                       const In<float>& weights) {
  const Rows rows = view(indptr, indices, values, labels, weights);
  std::size_t good = 0;
  Signals signals;
  {
    nb::gil_scoped_release release;
    while (good < rows.size && !signals.at(good) && is_good(rows[good]) &&
           is_weight(rows.weights[good])) {
      ++good;
    }
  }
  signals.check();
  if (good == rows.size) return;
  check_weight(good, rows.weights[good]);
  refuse(in_row(good,
                "indices must rise strictly and values be finite and not zero; "
                "Batch.from_csr brings rows into this form"));
}

inline RowArrays make_rows(const In<std::int64_t>& indptr, const In<std::int64_t>& indices,
                           const In<double>& values, const In<double>& labels,
                           const In<float>& weights) {
  check_indptr(indptr, indices.size());
  const std::size_t size = indptr.size() - 1;
  if (values.size() != indices.size()) refuse("indices and values differ in length");
  if (labels.size() != size || weights.size() != size) {
    refuse("labels and weights must have one entry per row");
  }
  RowBuffer rows;
  Signals signals;
  for (std::size_t r = 0; r < size; ++r) {
    if (signals.at(r)) signals.check();
    for (auto i = static_cast<std::size_t>(indptr.data()[r]);
         i < static_cast<std::size_t>(indptr.data()[r + 1]); ++i) {
      const std::int64_t index = indices.data()[i];
      if (index < 0 || index > 0xFFFFFFFFll) {
        refuse(in_row(r, "index " + std::to_string(index) + " is not in 0 to 4294967295"));
      }
      const auto value = static_cast<float>(values.data()[i]);
      if (!std::isfinite(value)) {
        refuse(in_row(r, "feature " + std::to_string(index) + ": value " + shown(values.data()[i]) +
                             " is not a finite 32-bit float"));
      }
      rows.push(static_cast<std::uint32_t>(index), value);
    }
    if (!rows.end_row(labels.data()[r], weights.data()[r], 0)) {
      refuse(in_row(r, "the sum of a repeated feature is not finite"));
    }
  }
  return give_rows(std::move(rows));
}

inline Loss loss_named(const std::string& name) {
  for (const Loss loss : all_losses) {
    if (name == name_of(loss)) return loss;
  }
  refuse("no loss is called " + name);
}

// Turns margins into predictions, in place.
inline void link_all(Loss loss, double* margins, std::size_t size) {
  with_loss(loss, [=](auto of) {
    for (std::size_t r = 0; r < size; ++r) margins[r] = of.link(margins[r]);
  });
}

// The same, with all cores.
inline void link_array(const std::string& loss, const InOut<double>& margins) {
  const Loss chosen = loss_named(loss);
  double* const at = margins.data();
  const std::size_t size = margins.size();
  nb::gil_scoped_release release;
  in_parts(size, part_rows, [&](std::size_t first, std::size_t last) {
    link_all(chosen, at + first, last - first);
    return last - first;
  });
}

}  // namespace pqr::bind
