// fork() while other threads learn: the child gets every model between two rows, and can use it.
//
// The locks of all models are taken inside of fork(), by pthread_atfork: no thread can be waiting
// for one of them with the GIL then, since the one that forks has it. This needs a list of all
// models, the only global state of the bindings.
#pragma once

#include <pthread.h>

#include <functional>
#include <list>
#include <mutex>
#include <utility>

namespace pqr::bind {

// What to do around every fork() while it exists.
class ForkGuard {
 public:
  using Before = std::function<void()>;
  using After = std::function<void(bool in_child)>;

  ForkGuard(Before before, After after) {
    const std::lock_guard lock(all().mutex);
    own_ = all().guards.emplace(all().guards.end(), std::move(before), std::move(after));
  }
  ~ForkGuard() {
    const std::lock_guard lock(all().mutex);
    all().guards.erase(own_);
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  struct All {
    std::mutex mutex;
    std::list<std::pair<Before, After>> guards;

    All() { pthread_atfork(before_fork, in_parent, in_child); }
  };
  std::list<std::pair<Before, After>>::iterator own_;

  static All& all() {
    static auto* const all = new All;  // never destroyed: models may outlive static objects
    return *all;
  }
  static void before_fork() {
    all().mutex.lock();
    for (const auto& guard : all().guards) guard.first();
  }
  static void in_parent() { after_fork(false); }
  static void in_child() { after_fork(true); }
  static void after_fork(bool in_child) {
    for (const auto& guard : all().guards) guard.second(in_child);
    all().mutex.unlock();
  }
};

}  // namespace pqr::bind
