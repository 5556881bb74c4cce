// When a model is worth a copy of its weights, to predict many rows from (frozen.hpp).
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>

#include "row.hpp"

namespace pqr {

// Models that cannot be frozen never have a copy.
template <class Model, class = void>
class Copies {
 public:
  using Copy = std::nullptr_t;
  Copy of(const Model&, const Rows&) { return nullptr; }
  void drop() {}
};

// Keeps the copy of one model until that changes. Safe to use by several threads that read the
// model; dropped by the one that has the model to itself.
template <class Model>
class Copies<Model, decltype(void(&Model::freeze))> {
 public:
  using Copy = decltype(std::declval<const Model&>().freeze(std::size_t{}));

  // The copy, or null while making it would take longer than the predictions since the last change.
  Copy of(const Model& model, const Rows& rows) {
    const std::lock_guard lock(mutex_);
    if (!copy_) copy_ = model.freeze(predicted_ += model.weights_in(rows));
    return copy_;
  }
  void drop() {
    copy_ = {};
    predicted_ = 0;
  }

 private:
  std::mutex mutex_;
  Copy copy_{};
  std::size_t predicted_ = 0;  // weights of all rows predicted without a copy
};

}  // namespace pqr
