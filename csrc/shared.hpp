// Locking: a model that one thread may train while others read it. A reader sees the model between
// two rows, never half of a row: it waits for the slice being learned. A reader that needs the same
// state in several calls holds the model meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "frozen.hpp"
#include "parallel.hpp"
#include "row.hpp"

namespace pqr {

// A mutex that is fair: first come, first served.
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

// Whether a model has freeze().
template <class Model, class = void>
constexpr bool can_freeze = false;
template <class Model>
constexpr bool can_freeze<Model, decltype(void(&Model::freeze))> = true;

template <class Model>
class Shared {
 public:
  template <class... Args>
  explicit Shared(std::in_place_t, Args&&... args) : model_(std::forward<Args>(args)...) {}

  // How to wait while the model is held. Python's way is to release the GIL around `wait`.
  static constexpr auto plainly = [](auto wait) { wait(); };
  // Whether to stop before the next slice.
  static constexpr auto never = [] { return false; };
  static constexpr auto ignored = [](double*, std::size_t) {};

  // Returns how many rows it has learned: all, unless one is refused or `stop` returns true.
  template <class Waiting = decltype(plainly), class Stop = decltype(never)>
  std::size_t learn(const Rows& rows, double* margins, Waiting waiting = plainly,
                    Stop stop = never) {
    return in_slices(rows, margins, stop, [&](const Rows& slice, double* out) {
      while (true) {
        const auto turn = this->turn(waiting);
        const auto lock = alone();
        if (held_) continue;
        forget_copy();
        return model_.learn(slice, out);
      }
    });
  }

  // Nothing is learned from hold() to release(), and nobody else holds the model; reading goes on.
  template <class Waiting = decltype(plainly)>
  void hold(Waiting waiting = plainly) {
    waiting([&] { holders_.lock(); });
    const auto lock = alone();
    held_ = true;
  }
  void release() {
    held_ = false;
    holders_.unlock();
  }

  // Around fork(): nobody else is inside, so the child gets the model between two rows. The other
  // threads, and whatever they held or waited for, do not exist there: it starts with new locks.
  void before_fork() {
    const std::lock_guard turn(turnstile_);
    mutex_.lock();
  }
  void after_fork(bool in_child) {
    if (!in_child) return mutex_.unlock();
    new (&mutex_) std::shared_mutex;
    new (&turnstile_) Turnstile;
    new (&holders_) Turnstile;
    held_ = false;
  }

  // Waits until nobody holds the model; nobody can hold it again before the turn ends.
  template <class Waiting>
  std::unique_lock<Turnstile> turn(Waiting waiting) {
    std::unique_lock turn(holders_, std::defer_lock);
    if (held_) waiting([&] { turn.lock(); });
    return turn;
  }

  // `then` is called with the margins of each part, on the thread that has computed them.
  template <class Then = decltype(ignored), class Stop = decltype(never)>
  std::size_t margin(const Rows& rows, double* margins, Then then = ignored,
                     Stop stop = never) const {
    const auto copy = this->copy(rows);
    const auto margin_of = [&](const Rows& slice, double* out) {
      if (copy) return copy->margin(slice, out);
      const auto lock = among_readers();
      return model_.margin(slice, out);
    };
    const auto part = [&](std::size_t first, std::size_t last) {
      double* const out = margins + first;
      const std::size_t done = in_slices(rows.range(first, last - first), out, stop, margin_of);
      then(out, done);
      return done;
    };
    return in_parts(rows.size, part_rows, part, stop);
  }

  // Anything else: with exclusive access, or among readers.
  template <class Work>
  auto change(Work work) {
    const auto lock = alone();
    forget_copy();
    return work(model_);
  }
  template <class Work>
  auto read(Work work) const {
    const auto lock = among_readers();
    return work(model_);
  }
  // For what learning never changes, without a lock.
  const Model& while_it_changes() const { return model_; }

 private:
  // A slice takes a few milliseconds: so long may a reader wait, and so late may work stop.
  static constexpr std::size_t slice_rows = 1024, slice_pairs = 1 << 21;

  Model model_;
  mutable std::shared_mutex mutex_;
  mutable Turnstile turnstile_;
  std::atomic<bool> held_{false};
  Turnstile holders_;  // and learners that have found the model held
  mutable std::mutex copying_;
  mutable std::shared_ptr<const Frozen> copy_;  // of all weights, until the model changes
  mutable std::size_t predicted_ = 0;           // coordinates of all rows predicted without it

  // The lock lets readers pass a waiting writer, so both queue for it.
  auto alone() const {
    const std::lock_guard turn(turnstile_);
    return std::unique_lock(mutex_);
  }
  auto among_readers() const {
    const std::lock_guard turn(turnstile_);
    return std::shared_lock(mutex_);
  }

  // A copy of the weights, or null while making it would take longer than the predictions since the
  // last change. Few rows do not wait for one to be made.
  std::shared_ptr<const Frozen> copy([[maybe_unused]] const Rows& rows) const {
    if constexpr (can_freeze<Model>) {
      if (rows.size <= slice_rows) return {};
      const auto lock = among_readers();
      const std::lock_guard one_at_a_time(copying_);
      if (!copy_) copy_ = model_.freeze(predicted_ += model_.weights_in(rows));
      return copy_;
    }
    return {};
  }
  void forget_copy() {
    copy_.reset();
    predicted_ = 0;
  }

  // How many rows the next slice has: fewer where rows are so long that they may have many pairs.
  static std::size_t slice_of(const Rows& rows) {
    std::size_t size = 0;
    for (std::size_t pairs = 0; pairs < slice_pairs && size < std::min(slice_rows, rows.size);) {
      const std::size_t features = rows[size++].size;
      pairs += features * features / 2;
    }
    return size;
  }

  template <class Stop, class Work>
  static std::size_t in_slices(const Rows& rows, double* margins, Stop stop, Work work) {
    std::size_t done = 0;
    while (done < rows.size && !stop()) {
      const std::size_t size = slice_of(rows.range(done, rows.size - done));
      const std::size_t finished = work(rows.range(done, size), margins + done);
      done += finished;
      if (finished < size) break;
    }
    return done;
  }
};

}  // namespace pqr
