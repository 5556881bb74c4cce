// A model that one thread may teach while others read. A reader sees the model
// between two rows, never half of a row: it waits for the slice being learned.
// Who reads in several steps holds the model, so that all of them see the same.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "row.hpp"

namespace pqr {

// First come, first served.
class Turnstile {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = next_++;
    turn_.wait(lock, [&] { return serving_ == ticket; });
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t next_ = 0, serving_ = 0;
};

// Shares out rows that do not depend on each other to all cores, a part at a time to whoever is
// free. `work` is given the first row of a part and the one after the last, and returns how many it
// has done. Returns how many rows are done before the first that is not.
template <class Work>
std::size_t in_parts(std::size_t size, Work work) {
  constexpr std::size_t part_rows = 8192;
  const std::size_t parts = (size + part_rows - 1) / part_rows;
  if (parts <= 1) return work(0, size);
  std::vector<std::size_t> done(parts);
  std::atomic<std::size_t> next{0};
  const auto begin = [&](std::size_t part) { return std::min(size, part * part_rows); };
  const auto run = [&] {
    for (std::size_t part; (part = next++) < parts;) {
      done[part] = work(begin(part), begin(part + 1));
    }
  };
  std::vector<std::future<void>> others;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t core = 1; core < std::min(cores, parts); ++core) {
    others.push_back(std::async(std::launch::async, run));
  }
  run();
  for (auto& other : others) other.get();
  std::size_t part = 0;
  while (part < parts && done[part] == begin(part + 1) - begin(part)) ++part;
  return part < parts ? begin(part) + done[part] : size;
}

// What a model is frozen into; nothing if it cannot be.
template <class Model, class = void>
struct Freezes {
  using Into = std::nullptr_t;
};
template <class Model>
struct Freezes<Model, decltype(void(&Model::freeze))> {
  using Into = decltype(std::declval<const Model&>().freeze(std::size_t{}));
};

template <class Model>
class Shared {
 public:
  template <class... Parts>
  explicit Shared(std::in_place_t, Parts&&... parts) : model_(std::forward<Parts>(parts)...) {}

  // How to wait while the model is held: a callable that is given the waiting.
  static constexpr auto plainly = [](auto wait) { wait(); };

  template <class Patiently = decltype(plainly)>
  std::size_t learn(const Rows& rows, double* margins, Patiently patiently = plainly) {
    return in_slices(rows, margins, [&](const Rows& slice, double* out) {
      while (true) {
        const auto turn = this->turn(patiently);
        const Alone alone(*this);
        if (held_) continue;
        thaw();
        return model_.learn(slice, out);
      }
    });
  }

  // Nothing is learned from hold() to release(), and nobody else holds the model; reading goes on.
  template <class Patiently = decltype(plainly)>
  void hold(Patiently patiently = plainly) {
    patiently([&] { holders_.lock(); });
    const Alone alone(*this);
    held_ = true;
  }
  void release() {
    held_ = false;
    holders_.unlock();
  }

  // Waits for it to be released, if it is held; it is not held again before the turn ends.
  template <class Patiently>
  std::unique_lock<Turnstile> turn(Patiently patiently) {
    std::unique_lock turn(holders_, std::defer_lock);
    if (held_) patiently([&] { turn.lock(); });
    return turn;
  }

  std::size_t margin(const Rows& rows, double* margins) const {
    return margin(rows, margins, [](double*, std::size_t) {});
  }

  // `then` is given the margins of each part, by the thread that has made them.
  template <class Then>
  std::size_t margin(const Rows& rows, double* margins, Then then) const {
    const auto with = [&](auto margin_of) {
      return in_parts(rows.size, [&](std::size_t first, std::size_t last) {
        const std::size_t done = margin_of(rows.part(first, last - first), margins + first);
        then(margins + first, done);
        return done;
      });
    };
    if constexpr (!std::is_same_v<Frozen, std::nullptr_t>) {
      if (const Frozen frozen = this->frozen(rows)) {
        return with([&](const Rows& part, double* out) { return frozen->margin(part, out); });
      }
    }
    return with([&](const Rows& part, double* out) { return margin_part(part, out); });
  }

  // All else, with the model to oneself or among readers.
  template <class Work>
  auto change(Work work) {
    const Alone alone(*this);
    thaw();
    return work(model_);
  }
  template <class Work>
  auto read(Work work) const {
    const Among among(*this);
    return work(model_);
  }
  // For what learning leaves alone, which may be read at any time.
  const Model& while_it_changes() const { return model_; }

 private:
  static constexpr std::size_t slice_rows = 1024;  // how long a reader may have to wait
  using Frozen = typename Freezes<Model>::Into;

  Model model_;
  mutable std::shared_mutex mutex_;
  mutable Turnstile turnstile_;
  std::atomic<bool> held_{false};
  Turnstile holders_;  // and those who learn, once they have found the model held
  mutable std::mutex freezing_;
  mutable Frozen frozen_{};        // kept until the model changes
  mutable std::size_t asked_ = 0;  // how many weights since then, while it was not there

  // The lock lets readers pass a waiting writer, so both queue for it.
  struct Alone {
    const Shared& of;
    explicit Alone(const Shared& s) : of(s) {
      const std::lock_guard turn(of.turnstile_);
      of.mutex_.lock();
    }
    ~Alone() { of.mutex_.unlock(); }
  };
  struct Among {
    const Shared& of;
    explicit Among(const Shared& s) : of(s) {
      const std::lock_guard turn(of.turnstile_);
      of.mutex_.lock_shared();
    }
    ~Among() { of.mutex_.unlock_shared(); }
  };

  // A copy to predict many rows from, once that pays. Few rows do not wait for it to be made.
  Frozen frozen(const Rows& rows) const {
    if (rows.size <= slice_rows) return {};
    const Among among(*this);
    const std::lock_guard lock(freezing_);
    if (!frozen_) frozen_ = model_.freeze(asked_ += model_.weights_asked(rows));
    return frozen_;
  }

  // For who has the model alone, and changes it.
  void thaw() {
    frozen_ = {};
    asked_ = 0;
  }

  std::size_t margin_part(const Rows& rows, double* margins) const {
    return in_slices(rows, margins, [&](const Rows& slice, double* out) {
      const Among among(*this);
      return model_.margin(slice, out);
    });
  }

  template <class Work>
  static std::size_t in_slices(const Rows& rows, double* margins, Work work) {
    std::size_t done = 0;
    while (done < rows.size) {
      const std::size_t size = std::min(slice_rows, rows.size - done);
      const std::size_t finished = work(rows.part(done, size), margins + done);
      done += finished;
      if (finished < size) break;
    }
    return done;
  }
};

}  // namespace pqr
