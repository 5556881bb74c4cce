// The thread pool: rows that do not depend on each other, shared out to all cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace pqr {

// Calls `work(first, last)` for parts of `size` rows, each on the next free core. `work` returns
// how many rows of its part it has done. Returns how many rows are done before the first that is
// not.
template <class Work>
std::size_t in_parts(std::size_t size, Work work) {
  constexpr std::size_t part_rows = 8192;  // a millisecond or more: threads cost far less
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

}  // namespace pqr
