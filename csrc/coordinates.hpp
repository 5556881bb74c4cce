// One row's coordinates, side by side: which slots they have, and their values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "avx2.hpp"
#include "lanes.hpp"
#include "optim.hpp"

namespace pqr {

// Room for `size` numbers, padded, and for seven more that are written by the way.
constexpr std::size_t with_room(std::size_t size) {
  return (size + lanes - 1) / lanes * lanes + lanes;
}

// Of arrays that nothing may follow: by eights, the last ones perhaps twice.
template <class T>
PQR_ALWAYS_INLINE inline void copy(const T* from, std::size_t size, T* to) {
  if (size < lanes) {
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
    return;
  }
  for (std::size_t i = 0; i < size; i += lanes) {
    const std::size_t first = std::min(i, size - lanes);
    write(to + first, read_as<Vector<T, lanes>>(from + first));
  }
}

// Where slots are: at numbers of one array, or anywhere.
struct Near {
  Slot<float>* array;
  const std::uint32_t* numbers;
  PQR_ALWAYS_INLINE Slot<float>* operator()(std::size_t i) const { return array + numbers[i]; }
};
struct Far {
  Slot<float>* const* places;
  PQR_ALWAYS_INLINE Slot<float>* operator()(std::size_t i) const { return places[i]; }
};

// A row's coordinates, padded to a multiple of `lanes`.
struct Coordinates {
  Slot<float>* array = nullptr;  // where `numbers` are; otherwise slots are at `places`
  std::vector<std::uint32_t> numbers;
  std::vector<Slot<float>*> places;
  std::vector<float> x;
  std::vector<std::uint32_t> blocks;  // of each, where the optimizer asks for them

  void resize(std::size_t to) {
    size_ = to;
    if (x.size() < with_room(size_)) grow();
  }

  std::size_t size() const { return size_; }
  std::size_t padded() const { return with_room(size_) - lanes; }

  // Fill up with coordinates of nothing: always as many, without a branch. With x = 0, no step
  // leaves the initial state of their slot.
  PQR_ALWAYS_INLINE void pad(std::uint32_t spare) {
    write(numbers.data() + size_, Vector<std::uint32_t, lanes>{} + spare);
    write(x.data() + size_, Vector<float, lanes>{});
  }
  void pad_places() {
    places.resize(with_room(size_));
    std::fill_n(places.data() + size_, lanes, &spare_);
  }

  // `work` is given where the slots are.
  template <class Work>
  PQR_ALWAYS_INLINE void with_places(Work work) const {
    if (array) {
      work(Near{array, numbers.data()});
    } else {
      work(Far{places.data()});
    }
  }

 private:
  std::size_t size_ = 0;
  Slot<float> spare_;

  [[gnu::noinline]] void grow() {
    numbers.resize(with_room(size_));
    x.resize(with_room(size_));
  }
};

// What the slots of eight coordinates held when they were weighed, for the step.
struct alignas(32) Weighed {
  float z[lanes], root_n[lanes], w[lanes];
};

}  // namespace pqr
