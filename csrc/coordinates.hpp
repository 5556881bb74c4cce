// One row's coordinates: where each slot is, and what is in it side by side, so
// that the kernel runs over contiguous arrays.
#pragma once

#include <cstddef>
#include <vector>

#include "kernel.hpp"
#include "optim.hpp"

namespace pqr {

struct Coordinates {
  std::size_t size = 0;
  std::vector<Slot<float>*> places;
  std::vector<Slot<float>> slots;
  std::vector<float> x, w;

  void reserve(std::size_t most) {
    size = 0;
    most = (most + lanes - 1) / lanes * lanes;
    if (slots.size() >= most) return;
    places.resize(most);
    slots.resize(most);
    x.resize(most);
    w.resize(most);
  }

  // Pads with nothing, to whole lanes; returns how many that makes.
  std::size_t pad() {
    std::size_t end = size;
    for (; end % lanes != 0; ++end) {
      x[end] = 0.0f;
      slots[end] = {};
    }
    return end;
  }

  void scatter() const {
    Slot<float>* const* to = places.data();
    const Slot<float>* from = slots.data();
    for (std::size_t i = 0, n = size; i < n; ++i) *to[i] = from[i];
  }
};

// Adds coordinates through plain pointers, which stay in registers.
struct Cursor {
  Slot<float>** places;
  Slot<float>* slots;
  float* x;
  std::size_t size = 0;

  explicit Cursor(Coordinates& c) : places(c.places.data()), slots(c.slots.data()), x(c.x.data()) {}

  void add(Slot<float>* place, float value) {
    places[size] = place;
    slots[size] = *place;
    x[size++] = value;
  }
};

}  // namespace pqr
