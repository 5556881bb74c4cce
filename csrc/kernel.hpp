// The arithmetic of one row: slots become weights and a sum, then take a step. Written once for
// vectors of any width; AVX2 has eight floats at a time, other machines four.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "coordinates.hpp"
#include "lanes.hpp"
#include "optim.hpp"
#include "prefetch.hpp"

namespace pqr {

template <std::size_t width>
PQR_ALWAYS_INLINE inline Vector<float, width> read(const float* from) {
  return read_as<Vector<float, width>>(from);
}

// Loads `width` slots, of which at(i) is the address of slot i, each as a number of eight bytes. In
// a vector of eight, shuffles do not cross the middle.
template <std::size_t width, class At>
PQR_ALWAYS_INLINE inline Slot<Vector<float, width>> take(At at) {
  using Floats = Vector<float, width>;
  using Pairs = Vector<double, width / 2>;
  const auto slot = [at](std::size_t i) PQR_ALWAYS_INLINE { return read_as<double>(at(i)); };
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

template <std::size_t width, class At>
PQR_ALWAYS_INLINE inline void put(At at, Slot<Vector<float, width>> slots) {
  using Pairs = Vector<double, width / 2>;
  const auto put = [at](std::size_t i, double bits) PQR_ALWAYS_INLINE { write(at(i), bits); };
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

// What the slots of eight coordinates held when they were weighed, for the step.
struct alignas(32) Weighed {
  float z[lanes], root_n[lanes], w[lanes];
};

// Slots of a row ahead, in the array: half of them are prefetched while a row is weighed, half
// while it steps. A core has only so many loads in flight.
struct Upcoming {
  ByNumber at{};
  std::size_t size = 0;  // a multiple of `lanes`

  Upcoming first() const { return {at, half()}; }
  Upcoming rest() const { return {{at.array, at.numbers + half()}, size - half()}; }

  // `lanes` of them, or all from there on.
  PQR_ALWAYS_INLINE void fetch_some(std::size_t from) const {
    if (from < size) {
      for (std::size_t l = 0; l < lanes; ++l) fetch(at(from + l));
    }
  }
  PQR_ALWAYS_INLINE void fetch_rest(std::size_t from) const {
    for (std::size_t i = from; i < size; ++i) fetch(at(i));
  }

 private:
  std::size_t half() const { return size / 2 / lanes * lanes; }
};

// The sum of w x over slots, where w = weight(slot): the margin of a row but for its bias.
// Prefetches the slots of a row ahead meanwhile. It `keeps` slots and weights if a step follows.
template <bool keeps, std::size_t width, class Rule, class At>
PQR_ALWAYS_INLINE inline double weigh_slots(const Rule& rule, At at, const float* x,
                                            std::size_t size, Weighed* weighed,
                                            Upcoming upcoming = {}) {
  using Floats = Vector<float, width>;
  Floats sums[lanes / width] = {};
  for (std::size_t i = 0; i < size; i += lanes, ++weighed) {
    upcoming.fetch_some(i);
    for (std::size_t p = 0; p < lanes / width; ++p) {
      const std::size_t from = i + p * width;
      const Slot<Floats> slots =
          take<width>([=](std::size_t l) PQR_ALWAYS_INLINE { return at(from + l); });
      const Floats weights = rule.weight(slots), values = read<width>(x + from);
      sums[p] += weights * values;
      if constexpr (!keeps) continue;
      write(weighed->z + p * width, slots.z);
      write(weighed->root_n + p * width, slots.root_n);
      write(weighed->w + p * width, weights);
    }
  }
  upcoming.fetch_rest(size);
  float lane[lanes];
  std::memcpy(lane, sums, sizeof lane);
  return sum_of_lanes(lane);
}

// Whether every |x| is at most `limit`; NaN is not.
PQR_ALWAYS_INLINE inline bool all_within(float limit, const float* x, std::size_t size) {
  using Floats = Vector<float, lanes>;
  auto within = Floats{} == Floats{};
  for (std::size_t i = 0; i < size; i += lanes)
    within &= magnitude(read_as<Floats>(x + i)) <= limit;
  const auto two = (Vector<std::int64_t, lanes / 2>)within;  // lanes at a time
  return (two[0] & two[1] & two[2] & two[3]) == -1;
}

// What an optimizer sums over a row's slots, in double: `lanes` strided partial sums, then the same
// tree as that of a row's sum.
template <class Optimizer>
double sum_of_terms(const Coordinates& c) {
  double lane[lanes] = {};
  c.with_slots([&](auto at) {
    for (std::size_t i = 0; i < c.padded(); i += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) lane[l] += Optimizer::term(at(i + l)->z);
    }
  });
  return sum_of_lanes(lane);
}

// The weights of many slots that lie side by side.
template <class Rule>
void weigh_all(bool avx2, Rule rule, const Slot<float>* slots, std::size_t size, float* weights) {
  vectorised(avx2, [=](auto at_a_time) PQR_ALWAYS_INLINE {
    constexpr std::size_t width = at_a_time;
    const std::size_t whole = size / width * width;
    for (std::size_t i = 0; i < whole; i += width) {
      const auto from = [first = slots + i](std::size_t l) PQR_ALWAYS_INLINE { return first + l; };
      write(weights + i, rule.weight(take<width>(from)));
    }
    for (std::size_t i = whole; i < size; ++i) weights[i] = rule.weight(slots[i]);
  });
}

// How many of many slots have a weight that is not zero.
template <class Rule>
std::size_t count_nonzeros(bool avx2, Rule rule, const Slot<float>* slots, std::size_t size) {
  float weights[256];  // a kilobyte, which stays in L1
  std::size_t zeros = 0;
  for (std::size_t done = 0; done < size; done += std::size(weights)) {
    const std::size_t some = std::min(size - done, std::size(weights));
    weigh_all(avx2, rule, slots + done, some, weights);
    zeros += static_cast<std::size_t>(std::count(weights, weights + some, 0.0f));
  }
  return size - zeros;
}

// slot = step(slot, w, slope * x) for all slots.
template <std::size_t width, class Rule, class At>
PQR_ALWAYS_INLINE inline void step_slots(const Rule& rule, At at, const float* x, std::size_t size,
                                         const Weighed* weighed, float slope,
                                         Upcoming upcoming = {}) {
  for (std::size_t i = 0; i < size; i += lanes, ++weighed) {
    upcoming.fetch_some(i);
    for (std::size_t p = 0; p < lanes; p += width) {
      const Slot<Vector<float, width>> before{read<width>(weighed->z + p),
                                              read<width>(weighed->root_n + p)};
      const auto slots =
          rule.step(before, read<width>(weighed->w + p), slope * read<width>(x + i + p));
      put<width>([=](std::size_t l) PQR_ALWAYS_INLINE { return at(i + p + l); }, slots);
    }
  }
  upcoming.fetch_rest(size);
}

}  // namespace pqr
