// A model that one thread may teach while others read. A reader sees the model
// between two rows, never half of a row: it waits for the slice being learned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "row.hpp"

namespace pqr {

template <class Model>
class Shared {
 public:
  template <class... Parts>
  explicit Shared(std::in_place_t, Parts&&... parts) : model_(std::forward<Parts>(parts)...) {}

  std::size_t learn(const Rows& rows, double* margins) {
    return in_slices(rows, margins, [&](const Rows& slice, double* out) {
      const std::unique_lock lock(mutex_);
      return model_.learn(slice, out);
    });
  }

  std::size_t margin(const Rows& rows, double* margins) const {
    return in_slices(rows, margins, [&](const Rows& slice, double* out) {
      const std::shared_lock lock(mutex_);
      return model_.margin(slice, out);
    });
  }

  // All else, with the model to oneself or among readers.
  template <class Work>
  auto change(Work work) {
    const std::unique_lock lock(mutex_);
    return work(model_);
  }
  template <class Work>
  auto read(Work work) const {
    const std::shared_lock lock(mutex_);
    return work(model_);
  }

 private:
  static constexpr std::size_t slice_rows = 1024;  // how long a reader may have to wait

  Model model_;
  mutable std::shared_mutex mutex_;

  template <class Work>
  static std::size_t in_slices(const Rows& rows, double* margins, Work work) {
    std::size_t done = 0;
    while (done < rows.size) {
      const std::size_t size = std::min(slice_rows, rows.size - done);
      const Rows slice{rows.indptr + done,
                       rows.indices,
                       rows.values,
                       rows.labels ? rows.labels + done : nullptr,
                       rows.weights ? rows.weights + done : nullptr,
                       size};
      const std::size_t finished = work(slice, margins + done);
      done += finished;
      if (finished < size) break;
    }
    return done;
  }
};

}  // namespace pqr
