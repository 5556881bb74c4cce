// Rows by name, for learners written in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../names.hpp"
#include "../row.hpp"
#include "arrays.hpp"
#include "dicts.hpp"
#include "rows.hpp"

namespace pqr::bind {

inline void check_targets(const std::string& loss, const In<double>& labels,
                          const In<float>& weights) {
  if (labels.size() != weights.size()) refuse("labels and weights differ in length");
  check_each_target(loss_named(loss), labels.data(), weights.data(), labels.size());
}

// Turns dicts into the arrays of a Batch of one row; keep() adds its new names.
class DictReader {
 public:
  using Arrays =
      std::tuple<Out<std::int64_t>, Out<std::uint32_t>, Out<float>, Out<double>, Out<float>>;

  Arrays read(nb::handle x, std::uint64_t next_feature) {
    return arrays(dict_.read(x, *names_, next_feature));
  }

  Arrays read_labelled(nb::handle x, std::uint64_t next_feature, const std::string& loss,
                       double label, double weight) {
    check_label(0, loss_named(loss), label);
    check_weight(0, weight);
    dict_.read(x, *names_, next_feature);
    return arrays(dict_.labelled(label, static_cast<float>(weight)));
  }

  // Adds the new names of the row read last.
  void keep() { dict_.keep(*names_); }

  std::shared_ptr<Names> names() const { return names_; }
  void set_names(std::shared_ptr<Names> names) { names_ = std::move(names); }

 private:
  std::shared_ptr<Names> names_ = std::make_shared<Names>();
  DictRow dict_;

  static Arrays arrays(const Rows& rows) {
    const auto size = static_cast<std::size_t>(rows.indptr[1]);
    return {give(std::vector<std::int64_t>(rows.indptr, rows.indptr + 2)),
            give(std::vector<std::uint32_t>(rows.indices, rows.indices + size)),
            give(std::vector<float>(rows.values, rows.values + size)),
            give(std::vector<double>(rows.labels, rows.labels + 1)),
            give(std::vector<float>(rows.weights, rows.weights + 1))};
  }
};

}  // namespace pqr::bind
