// One row's coordinates: where each slot is, and what is in it side by side, so
// that the kernel runs over contiguous arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernel.hpp"
#include "memory.hpp"
#include "optim.hpp"

namespace pqr {

// By fours: up to three more than `count`, for the next ones to overwrite.
template <class T, class Value>
inline void fill(T* __restrict out, std::size_t count, Value value) {
  for (std::size_t i = 0; i < count; i += 4) {
    for (std::size_t l = 0; l < 4; ++l) out[i + l] = value(i + l);
  }
}

struct Coordinates {
  std::size_t size = 0;
  std::vector<Slot<float>*> places;
  std::vector<Slot<float>> slots;
  std::vector<float> x, w;

  void resize(std::size_t to) {
    size = to;
    const std::size_t most = padded() + lanes;  // and room for fill()
    if (slots.size() >= most) return;
    places.resize(most);
    slots.resize(most);
    x.resize(most);
    w.resize(most);
  }

  std::size_t padded() const { return (size + lanes - 1) / lanes * lanes; }

  // Takes the slots from their places, and pads. Between one slot and the next it
  // asks for one of a row to come, whose places are known from `first` on: memory answers many at
  // a time, but not all at once.
  void gather(const Coordinates& coming, std::size_t first) {
    Slot<float>* const* from = places.data();
    Slot<float>* const* fetched = coming.places.data() + first;
    Slot<float>* to = slots.data();
    const std::size_t fetches = coming.size - first;
    const std::size_t both = std::min(size, fetches);
    std::size_t i = 0;
#pragma GCC unroll 4
    for (; i < both; ++i) {
      fetch(fetched[i]);
      std::memcpy(to + i, from[i], sizeof *to);
    }
    for (std::size_t rest = i; rest < fetches; ++rest) fetch(fetched[rest]);
    for (; i < size; ++i) std::memcpy(to + i, from[i], sizeof *to);
    pad();
  }

  // With nothing.
  void pad() {
    for (std::size_t i = size; i < padded(); ++i) {
      x[i] = 0.0f;
      slots[i] = {};
    }
  }

  void scatter() const {
    Slot<float>* const* to = places.data();
    const Slot<float>* from = slots.data();
#pragma GCC unroll 4
    for (std::size_t i = 0, n = size; i < n; ++i) std::memcpy(to[i], from + i, sizeof *from);
  }
};

}  // namespace pqr
