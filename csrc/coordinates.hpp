// One row's coordinates: where each slot is, and what is in it side by side, so
// that the kernel runs over contiguous arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "avx2.hpp"
#include "kernel.hpp"
#include "memory.hpp"
#include "optim.hpp"

namespace pqr {

// By fours: up to three more than `count`, for the next ones to overwrite.
template <class T, class Value>
PQR_ALWAYS_INLINE inline void fill(T* __restrict out, std::size_t count, Value value) {
  for (std::size_t i = 0; i < count; i += 4) {
    for (std::size_t l = 0; l < 4; ++l) out[i + l] = value(i + l);
  }
}

// Room for the places of `size` slots, padded, and for fill().
constexpr std::size_t with_room(std::size_t size) {
  return (size + lanes - 1) / lanes * lanes + lanes;
}

struct Coordinates {
  std::size_t size = 0;
  std::vector<Slot<float>*> places;
  std::vector<Slot<float>> slots;
  std::vector<float> x, w;
  float largest = 0.0f;  // |x|, once they are weighed

  void resize(std::size_t to) {
    size = to;
    const std::size_t most = with_room(size);
    if (places.size() < most) places.resize(most);
    if (slots.size() >= most) return;
    slots.resize(most);
    x.resize(most);
    w.resize(most);
  }

  std::size_t padded() const { return with_room(size) - lanes; }

  // Fills up to a multiple of `lanes`, with places of nothing.
  void pad() {
    for (std::size_t i = size; i < padded(); ++i) {
      x[i] = 0.0f;
      places[i] = &spare_;
    }
  }

  // Takes the slots from their places, four at a time: what is written in one piece can be read as
  // such at once.
  void gather(bool avx2) {
    vectorised(avx2, [this]() PQR_ALWAYS_INLINE { take(0, padded()); });
  }

  // Between them it asks for those of a row to come, whose places are known from `first` on: memory
  // answers many at a time, but not all at once.
  void gather(bool avx2, const Coordinates& coming, std::size_t first) {
    vectorised(avx2, [this, &coming, first]() PQR_ALWAYS_INLINE {
      const std::size_t begin = first / four * four;
      const std::size_t fetches = coming.padded() - begin;
      const std::size_t both = std::min(padded(), fetches);
      Slot<float>* const* fetched = coming.places.data() + begin;
      for (std::size_t i = 0; i < both; i += four) {
        for (std::size_t l = 0; l < four; ++l) fetch(fetched[i + l]);
        take(i, i + four);
      }
      for (std::size_t i = both; i < fetches; ++i) fetch(fetched[i]);
      take(both, padded());
    });
  }

  void scatter() const {
    Slot<float>* const* to = places.data();
    const Slot<float>* from = slots.data();
    for (std::size_t i = 0, end = padded(); i < end; i += four) {
      for (std::size_t l = 0; l < four; ++l) *to[i + l] = from[i + l];
    }
  }

 private:
  static constexpr std::size_t four = 4;  // a divisor of `lanes`
  using Four = std::uint64_t __attribute__((vector_size(32)));
  static_assert(sizeof(Four) == four * sizeof(Slot<float>));

  Slot<float> spare_;  // with x = 0, no step leaves its initial state

  PQR_ALWAYS_INLINE void take(std::size_t begin, std::size_t end) {
    Slot<float>* const* from = places.data();
    Slot<float>* to = slots.data();
    for (std::size_t i = begin; i < end; i += four) {
      std::uint64_t slot[four];
      for (std::size_t l = 0; l < four; ++l) std::memcpy(slot + l, from[i + l], sizeof slot[l]);
      const Four taken = {slot[0], slot[1], slot[2], slot[3]};
      std::memcpy(static_cast<void*>(to + i), &taken, sizeof taken);
    }
  }
};

}  // namespace pqr
