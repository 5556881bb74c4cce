// Prefetching of cache lines.
#pragma once

#include <cstddef>

namespace pqr {

constexpr std::size_t cache_line = 64;  // bytes, on x86 and most ARM

// Prefetches a cache line into L2, not L1: a row needs more lines than L1 can have under way. Not
// __builtin_prefetch alone: GCC takes a function that does nothing else for one without effect, and
// drops the call.
inline void fetch(const void* address) {
#ifdef __SSE2__
  asm volatile("prefetcht1 %0" ::"m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1, 2);
#endif
}

// Prefetches every line of a value.
template <class T>
inline void fetch_value(const T* value) {
  for (std::size_t at = 0; at < sizeof(T); at += cache_line) {
    fetch(reinterpret_cast<const char*>(value) + at);
  }
}

// Prefetches the ends of an array that will be read from its start: the hardware does the rest.
template <class T>
inline void fetch_ends(const T* array, std::size_t size) {
  fetch(array);
  fetch(array + size);  // where the next array may start
}

}  // namespace pqr
