// One row's coordinates, side by side: their slots and their values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lanes.hpp"
#include "optim.hpp"

namespace pqr {

// Where a row's slots are: at numbers of one array, or anywhere.
struct ByNumber {
  Slot<float>* array;
  const std::uint32_t* numbers;
  PQR_ALWAYS_INLINE Slot<float>* operator()(std::size_t i) const { return array + numbers[i]; }
};
struct ByPointer {
  Slot<float>* const* slots;
  PQR_ALWAYS_INLINE Slot<float>* operator()(std::size_t i) const { return slots[i]; }
};

// Padded to a multiple of `lanes` by coordinates of nothing: with x = 0, no step leaves the initial
// state of their slot.
class Coordinates {
 public:
  Slot<float>* array = nullptr;        // in which slots have `numbers`; null where they are `slots`
  std::vector<std::uint32_t> numbers;  // each of these has `lanes` more than padded()
  std::vector<Slot<float>*> slots;
  std::vector<float> x;

  std::size_t size() const { return size_; }
  std::size_t padded() const { return (size_ + lanes - 1) / lanes * lanes; }

  void resize(std::size_t size) {
    size_ = size;
    if (x.size() < padded() + lanes) grow();
  }

  // Always pads by as many, without a branch.
  PQR_ALWAYS_INLINE void pad(std::uint32_t nothing) {
    write(numbers.data() + size_, Vector<std::uint32_t, lanes>{} + nothing);
    write(x.data() + size_, Vector<float, lanes>{});
  }
  void pad_slots() {
    slots.resize(padded() + lanes);
    std::fill_n(slots.data() + size_, lanes, &spare_);
  }

  // Calls work(at), where at(i) is the slot of coordinate i.
  template <class Work>
  PQR_ALWAYS_INLINE void with_slots(Work work) const {
    if (array) {
      work(ByNumber{array, numbers.data()});
    } else {
      work(ByPointer{slots.data()});
    }
  }

 private:
  std::size_t size_ = 0;
  Slot<float> spare_;

  [[gnu::noinline]] void grow() {
    numbers.resize(padded() + lanes);
    x.resize(padded() + lanes);
  }
};

}  // namespace pqr
