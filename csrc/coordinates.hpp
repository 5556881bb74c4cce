// One row's coordinates: where each slot is, and what is in it side by side, so
// that the kernel runs over contiguous arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "avx2.hpp"
#include "lanes.hpp"
#include "optim.hpp"

namespace pqr {

// By eights: up to seven more than `count`, for the next ones to overwrite.
template <class T, class Value>
PQR_ALWAYS_INLINE inline void fill(T* __restrict out, std::size_t count, Value value) {
  for (std::size_t i = 0; i < count; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) out[i + l] = value(i + l);
  }
}

// Numbers side by side. Unlike loops over arrays, these leave no question whether two overlap.
template <class V, class T>
PQR_ALWAYS_INLINE inline V read_as(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
PQR_ALWAYS_INLINE inline void write(T* to, V v) {
  std::memcpy(static_cast<void*>(to), &v, sizeof v);
}

// Room for the places of `size` slots, padded, and for fill().
constexpr std::size_t with_room(std::size_t size) {
  return (size + lanes - 1) / lanes * lanes + lanes;
}

// Of values that nothing may follow: by eights, the last ones perhaps twice.
inline void copy(const float* from, std::size_t size, float* to) {
  if (size < lanes) {
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
    return;
  }
  for (std::size_t i = 0; i < size; i += lanes) {
    const std::size_t first = std::min(i, size - lanes);
    std::memcpy(to + first, from + first, lanes * sizeof(float));
  }
}

// Places of slots of one array, which lie at `offsets` from its start, and their x = values *
// factor. By eights, as fill().
PQR_ALWAYS_INLINE inline void fill_array(const Slot<float>* array, const std::uintptr_t* offsets,
                                         const float* values, float factor, std::size_t size,
                                         Slot<float>** places, float* x) {
  using Addresses = Vector<std::uintptr_t, lanes / 2>;
  const auto first = reinterpret_cast<std::uintptr_t>(array);
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t half = i; half < i + lanes; half += lanes / 2) {
      write(places + half, first + read_as<Addresses>(offsets + half));
    }
    write(x + i, read_as<Vector<float, lanes>>(values + i) * factor);
  }
}

struct Coordinates {
  std::size_t size = 0;
  std::vector<Slot<float>*> places;
  std::vector<float> x;
  std::vector<float> z, root_n, w;  // of the slots, once they are weighed
  float largest = 0.0f;             // |x|, then too

  void resize(std::size_t to) {
    size = to;
    if (places.size() < with_room(size)) grow();
  }

  std::size_t padded() const { return with_room(size) - lanes; }

  // Fills up to a multiple of `lanes`, with places of nothing. Always as many, without a branch.
  void pad() {
    std::fill_n(x.data() + size, lanes, 0.0f);
    std::fill_n(places.data() + size, lanes, &spare_);
  }

 private:
  Slot<float> spare_;  // with x = 0, no step leaves its initial state

  [[gnu::noinline]] void grow() {
    places.resize(with_room(size));
    for (auto* array : {&x, &z, &root_n, &w}) array->resize(with_room(size));
  }
};

}  // namespace pqr
