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
  std::vector<Slot<float>*> slots;
  std::vector<float> x, z, root_n, w;

  void reserve(std::size_t most) {
    size = 0;
    most = (most + lanes - 1) / lanes * lanes;
    if (slots.size() >= most) return;
    slots.resize(most);
    for (auto* array : {&x, &z, &root_n, &w}) array->resize(most);
  }

  // Pads with nothing, to whole lanes; returns how many that makes.
  std::size_t pad() {
    std::size_t end = size;
    for (; end % lanes != 0; ++end) x[end] = z[end] = root_n[end] = 0.0f;
    return end;
  }

  void scatter() {
    Slot<float>* const* to = slots.data();
    const float *from_z = z.data(), *from_root_n = root_n.data();
    for (std::size_t i = 0, n = size; i < n; ++i) *to[i] = {from_z[i], from_root_n[i]};
  }
};

// Adds coordinates through plain pointers, which stay in registers.
struct Cursor {
  Slot<float>** slots;
  float *x, *z, *root_n;
  std::size_t size = 0;

  explicit Cursor(Coordinates& c)
      : slots(c.slots.data()), x(c.x.data()), z(c.z.data()), root_n(c.root_n.data()) {}

  void add(Slot<float>* slot, float value) {
    slots[size] = slot;
    z[size] = slot->z;
    root_n[size] = slot->root_n;
    x[size++] = value;
  }
};

}  // namespace pqr
