// The arithmetic of one row: slots become weights and a sum, then take a step. Written once for
// vectors of any width; AVX2 has eight floats at a time, other machines four.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "avx2.hpp"
#include "coordinates.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "optim.hpp"

namespace pqr {

template <std::size_t width>
PQR_ALWAYS_INLINE inline Vector<float, width> read(const float* from) {
  return read_as<Vector<float, width>>(from);
}

// A slot in one piece.
PQR_ALWAYS_INLINE inline double bits_at(const Slot<float>* place) {
  double bits;
  static_assert(sizeof bits == sizeof *place);
  std::memcpy(&bits, place, sizeof bits);
  return bits;
}

// The slots at `width` places. In a vector of eight, shuffles do not cross the middle.
template <std::size_t width, class Place>
PQR_ALWAYS_INLINE inline Slot<Vector<float, width>> take(Place place) {
  using Floats = Vector<float, width>;
  using Pairs = Vector<double, width / 2>;
  const auto slot = [place](int i) PQR_ALWAYS_INLINE { return bits_at(place(i)); };
  if constexpr (width == 8) {
    const auto a = (Floats)Pairs{slot(0), slot(1), slot(4), slot(5)};
    const auto b = (Floats)Pairs{slot(2), slot(3), slot(6), slot(7)};
    return {shuffled<0, 2, 8, 10, 4, 6, 12, 14>(a, b), shuffled<1, 3, 9, 11, 5, 7, 13, 15>(a, b)};
  } else {
    const auto a = (Floats)Pairs{slot(0), slot(1)};
    const auto b = (Floats)Pairs{slot(2), slot(3)};
    return {shuffled<0, 2, 4, 6>(a, b), shuffled<1, 3, 5, 7>(a, b)};
  }
}

template <std::size_t width>
PQR_ALWAYS_INLINE inline void put(Slot<float>* const* to, Slot<Vector<float, width>> slots) {
  using Pairs = Vector<double, width / 2>;
  const auto put = [to](int i, double bits) PQR_ALWAYS_INLINE {
    std::memcpy(static_cast<void*>(to[i]), &bits, sizeof bits);
  };
  if constexpr (width == 8) {
    const auto a = (Pairs)shuffled<0, 8, 1, 9, 4, 12, 5, 13>(slots.z, slots.root_n);
    const auto b = (Pairs)shuffled<2, 10, 3, 11, 6, 14, 7, 15>(slots.z, slots.root_n);
    put(0, a[0]), put(1, a[1]), put(4, a[2]), put(5, a[3]);
    put(2, b[0]), put(3, b[1]), put(6, b[2]), put(7, b[3]);
  } else {
    const auto a = (Pairs)shuffled<0, 4, 1, 5>(slots.z, slots.root_n);
    const auto b = (Pairs)shuffled<2, 6, 3, 7>(slots.z, slots.root_n);
    put(0, a[0]), put(1, a[1]), put(2, b[0]), put(3, b[1]);
  }
}

// Sum of the squares of z, in double: `lanes` strided partial sums, then the same tree.
inline double sum_of_squares(const Coordinates& c) {
  double part[lanes] = {};
  for (std::size_t i = 0, size = c.padded(); i < size; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) {
      part[l] += double{c.places[i + l]->z} * double{c.places[i + l]->z};
    }
  }
  return sum_of_parts(part);
}

// Some of the places of a row to come, for memory to have them ready.
struct Coming {
  Slot<float>* const* places = nullptr;
  std::size_t size = 0;  // a multiple of `lanes`

  // Asked for while a row is weighed, and while it steps: memory answers many at a time, but not
  // all at once.
  Coming first() const { return {places, part()}; }
  Coming rest() const { return {places + part(), size - part()}; }

 private:
  std::size_t part() const { return size / 2 / lanes * lanes; }
};

// Takes the slots from their places and returns the sum of w x, where w = weight(slot). In between
// it asks for what is coming. `Each` is an optimizer as one coordinate sees it. Slots, weights and
// the largest |x| are kept in the coordinates where a step needs them.
template <bool keeps, class Machine, class Each>
PQR_ALWAYS_INLINE inline double weigh_slots(Machine machine, Each each, Coordinates& c,
                                            Coming coming = {}) {
  return vectorised(machine, [each, coming, &c](auto at_a_time) PQR_ALWAYS_INLINE {
    constexpr std::size_t width = at_a_time;
    using Floats = Vector<float, width>;
    using Bits = Vector<std::int32_t, width>;
    Slot<float>* const* places = c.places.data();
    float *z = c.z.data(), *root_n = c.root_n.data(), *w = c.w.data();
    const float* x = c.x.data();
    const std::size_t size = c.padded();
    Floats part[lanes / width] = {};
    Bits most = {};  // |x|: as whole numbers, floats without a sign have the same order
    for (std::size_t i = 0; i < size; i += lanes) {
      if (i < coming.size) {
        for (std::size_t l = 0; l < lanes; ++l) fetch(coming.places[i + l]);
      }
      for (std::size_t p = 0; p < lanes / width; ++p) {
        const std::size_t at = i + p * width;
        const Slot<Floats> slots =
            take<width>([from = places + at](int l) PQR_ALWAYS_INLINE { return from[l]; });
        const Floats weights = each.weight(slots), values = read<width>(x + at);
        part[p] += weights * values;
        if constexpr (!keeps) continue;
        write(z + at, slots.z);
        write(root_n + at, slots.root_n);
        write(w + at, weights);
        const Bits magnitudes = (Bits)magnitude(values);
        most = magnitudes > most ? magnitudes : most;
      }
    }
    for (std::size_t i = size; i < coming.size; ++i) fetch(coming.places[i]);
    if constexpr (keeps) {
      std::int32_t bits[width], largest = 0;
      std::memcpy(bits, &most, sizeof bits);
      for (const std::int32_t one : bits) largest = std::max(largest, one);
      std::memcpy(&c.largest, &largest, sizeof largest);
    }
    float parts[lanes];
    std::memcpy(parts, part, sizeof parts);
    return sum_of_parts(parts);
  });
}

// The weights of many slots that lie side by side.
template <class Each>
void weigh_all(bool avx2, Each each, const Slot<float>* slots, std::size_t size, float* weights) {
  vectorised(avx2, [=](auto at_a_time) PQR_ALWAYS_INLINE {
    constexpr std::size_t width = at_a_time;
    const std::size_t whole = size / width * width;
    for (std::size_t i = 0; i < whole; i += width) {
      const auto from = [first = slots + i](int l) PQR_ALWAYS_INLINE { return first + l; };
      write(weights + i, each.weight(take<width>(from)));
    }
    for (std::size_t i = whole; i < size; ++i) weights[i] = each.weight(slots[i]);
  });
}

// How many slots, of many that lie side by side, have a weight that is not zero.
template <class Each>
std::size_t count_nonzeros(bool avx2, Each each, const Slot<float>* slots, std::size_t size) {
  return vectorised(avx2, [=](auto at_a_time) PQR_ALWAYS_INLINE {
    constexpr std::size_t width = at_a_time;
    const std::size_t whole = size / width * width;
    std::size_t count = 0;
    Vector<std::int32_t, width> counts = {};
    for (std::size_t i = 0; i < whole; i += width) {
      const auto from = [first = slots + i](int l) PQR_ALWAYS_INLINE { return first + l; };
      counts -= each.weight(take<width>(from)) != 0.0f;
    }
    for (std::size_t l = 0; l < width; ++l) count += static_cast<std::size_t>(counts[l]);
    for (std::size_t i = whole; i < size; ++i) count += each.weight(slots[i]) != 0.0f;
    return count;
  });
}

// slot = step(slot, w, slope * x), and back to their places.
template <class Machine, class Each>
PQR_ALWAYS_INLINE inline void step_slots(Machine machine, Each each, Coordinates& c, float slope,
                                         Coming coming = {}) {
  vectorised(machine, [each, slope, coming, &c](auto at_a_time) PQR_ALWAYS_INLINE {
    constexpr std::size_t width = at_a_time;
    Slot<float>* const* places = c.places.data();
    const float *z = c.z.data(), *root_n = c.root_n.data(), *w = c.w.data(), *x = c.x.data();
    const std::size_t size = c.padded();
    for (std::size_t i = 0; i < size; i += width) {
      if (i < coming.size) {
        for (std::size_t l = 0; l < width; ++l) fetch(coming.places[i + l]);
      }
      const auto slots =
          each.step(Slot<Vector<float, width>>{read<width>(z + i), read<width>(root_n + i)},
                    read<width>(w + i), slope * read<width>(x + i));
      put<width>(places + i, slots);
    }
    for (std::size_t i = size; i < coming.size; ++i) fetch(coming.places[i]);
  });
}

}  // namespace pqr
