// One row's coordinates: where each slot is, and what is in it side by side, so
// that the kernel runs over contiguous arrays.
#pragma once

#include <cstddef>
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

// Room for the places of `size` slots, padded, and for fill().
constexpr std::size_t with_room(std::size_t size) {
  return (size + lanes - 1) / lanes * lanes + lanes;
}

struct Coordinates {
  std::size_t size = 0;
  std::vector<Slot<float>*> places;
  std::vector<float> x;
  std::vector<float> z, root_n, w;  // of the slots, once they are weighed
  float largest = 0.0f;             // |x|, then too

  void resize(std::size_t to) {
    size = to;
    const std::size_t most = with_room(size);
    if (places.size() < most) places.resize(most);
    for (auto* array : {&x, &z, &root_n, &w}) {  // some may be another row's, and larger
      if (array->size() < most) array->resize(most);
    }
  }

  std::size_t padded() const { return with_room(size) - lanes; }

  // Fills up to a multiple of `lanes`, with places of nothing.
  void pad() {
    for (std::size_t i = size; i < padded(); ++i) {
      x[i] = 0.0f;
      places[i] = &spare_;
    }
  }

 private:
  Slot<float> spare_;  // with x = 0, no step leaves its initial state
};

}  // namespace pqr
