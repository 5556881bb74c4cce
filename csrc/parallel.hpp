// All threads that the core starts: independent parts of some work, on all cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace pqr {

// How many threads one call may run on, the calling one included: 0 for as many as there are cores.
// For the whole process, and the only global of the core: a bound is meant for all threads.
inline std::atomic<std::size_t> thread_bound{0};

inline std::size_t threads() {
  const std::size_t bound = thread_bound;
  return bound > 0 ? bound : std::max(1u, std::thread::hardware_concurrency());
}

// Calls `work(first, last)` for parts of `size` items (rows, or ranks), each on the next free
// thread. `work` returns how many items of its part it has done. Returns how many are done before
// the first that is not. The calling thread calls `meanwhile` every 50 ms, for Ctrl-C, as it waits.
template <class Work, class Meanwhile = void (*)()>
std::size_t in_parts(
    std::size_t size, std::size_t part_size, Work work, Meanwhile meanwhile = [] {}) {
  const std::size_t parts = (size + part_size - 1) / part_size;
  if (parts <= 1) return work(std::size_t{0}, size);
  std::vector<std::size_t> done(parts);
  std::atomic<std::size_t> next{0};
  const auto begin = [&](std::size_t part) { return std::min(size, part * part_size); };
  const auto run = [&] {
    for (std::size_t part; (part = next++) < parts;) {
      done[part] = work(begin(part), begin(part + 1));
    }
  };
  // Where the system grants no thread, `deferred` runs it in get() below, when nothing may be left.
  const auto policy = std::launch::async | std::launch::deferred;
  std::vector<std::future<void>> others;
  for (std::size_t n = 1; n < std::min(threads(), parts); ++n) {
    others.push_back(std::async(policy, run));
  }
  run();
  for (auto& other : others) {
    while (other.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout) {
      meanwhile();
    }
    other.get();
  }
  std::size_t part = 0;
  while (part < parts && done[part] == begin(part + 1) - begin(part)) ++part;
  return part < parts ? begin(part) + done[part] : size;
}

constexpr std::size_t part_rows = 8192;  // a millisecond or more: threads cost far less

}  // namespace pqr
