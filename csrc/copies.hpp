// When a model is worth a copy of its weights, to predict many rows from (frozen.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "frozen.hpp"
#include "row.hpp"

namespace pqr {

// Models without freeze() never have a copy.
template <class Model, class = void>
struct Copies {
  std::shared_ptr<const Frozen> of(const Model&, const Rows&) { return nullptr; }
  void drop() {}
};

// Keeps the copy of one model until that changes. Safe to use by several threads that read the
// model; dropped by the one that has the model to itself.
template <class Model>
class Copies<Model, decltype(void(&Model::freeze))> {
 public:
  // The copy, or null while making it would take longer than the predictions since the last change.
  std::shared_ptr<const Frozen> of(const Model& model, const Rows& rows) {
    const std::lock_guard lock(mutex_);
    if (!copy_) copy_ = model.freeze(predicted_ += model.weights_in(rows));
    return copy_;
  }
  void drop() {
    copy_.reset();
    predicted_ = 0;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const Frozen> copy_;
  std::size_t predicted_ = 0;  // weights of all rows predicted without a copy
};

}  // namespace pqr
