// What the tables are tested with: values of any size and alignment, and checks with a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

template <std::size_t size, std::size_t alignment = alignof(std::uint32_t)>
struct alignas(alignment) Value {
  std::uint32_t words[size] = {};

  bool operator==(const Value& other) const {
    return std::equal(std::begin(words), std::end(words), std::begin(other.words));
  }

  // Counts on, so that no two values are the same.
  void write(std::uint32_t& written) {
    for (std::uint32_t& word : words) word = ++written;
  }
};

using Half = Value<8, 32>;   // of a cache line
using Line = Value<16, 64>;  // a whole one

inline int failed = 0;  // the number of the first check that did

inline void require(int number, bool good) {
  if (!good && failed == 0) failed = number;
}

template <class T>
void require_aligned(const T* value) {
  require(99, reinterpret_cast<std::uintptr_t>(value) % alignof(T) == 0);
}
