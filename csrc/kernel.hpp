// The arithmetic of one row: slots become weights and a sum, then take a step. Written once for
// vectors of any width; AVX2 has eight floats at a time, other machines four.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
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
  const auto slot = [place](std::size_t i) PQR_ALWAYS_INLINE { return bits_at(place(i)); };
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

template <std::size_t width, class Place>
PQR_ALWAYS_INLINE inline void put(Place place, Slot<Vector<float, width>> slots) {
  using Pairs = Vector<double, width / 2>;
  const auto put = [place](std::size_t i, double bits) PQR_ALWAYS_INLINE {
    std::memcpy(static_cast<void*>(place(i)), &bits, sizeof bits);
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

// Slots of a row to come, for memory to have them ready.
struct Coming {
  Near at{};
  std::size_t size = 0;  // a multiple of `lanes`

  // Asked for while a row is weighed, and while it steps: memory answers many at a time, but not
  // all at once.
  Coming first() const { return {at, part()}; }
  Coming rest() const { return {{at.array, at.numbers + part()}, size - part()}; }

  // Some of them, or all from there on.
  PQR_ALWAYS_INLINE void fetch_some(std::size_t from) const {
    if (from < size) {
      for (std::size_t l = 0; l < lanes; ++l) fetch(at(from + l));
    }
  }
  PQR_ALWAYS_INLINE void fetch_rest(std::size_t from) const {
    for (std::size_t i = from; i < size; ++i) fetch(at(i));
  }

 private:
  std::size_t part() const { return size / 2 / lanes * lanes; }
};

// A row's sum of w x, in parts.
template <std::size_t width>
struct Sum {
  Vector<float, width> part[lanes / width] = {};

  PQR_ALWAYS_INLINE double total() const {
    float parts[lanes];
    std::memcpy(parts, part, sizeof parts);
    return sum_of_parts(parts);
  }
};

// One rule for all coordinates of a row,
template <class Rule>
struct Same {
  Rule rule;
  PQR_ALWAYS_INLINE Rule from(std::size_t) const { return rule; }
};

// or one for each block. All of them are worked out, and each coordinate takes its own.
template <class Rule>
struct ByBlock {
  std::array<Rule, 5> rules;  // by block
  const std::uint32_t* blocks;

  struct From {
    const ByBlock& of;
    const std::uint32_t* blocks;

    template <class V>
    PQR_ALWAYS_INLINE V weight(Slot<V> slots) const {
      V weights{};
      each<V>([&](const Rule& rule, auto mine)
                  PQR_ALWAYS_INLINE { weights = mine ? rule.weight(slots) : weights; });
      return weights;
    }
    template <class V>
    PQR_ALWAYS_INLINE Slot<V> step(Slot<V> slots, V weights, V gradients) const {
      Slot<V> stepped = slots;
      each<V>([&](const Rule& rule, auto mine) PQR_ALWAYS_INLINE {
        const Slot<V> found = rule.step(slots, weights, gradients);
        stepped = {mine ? found.z : stepped.z, mine ? found.root_n : stepped.root_n};
      });
      return stepped;
    }

    template <class V, class Visit>
    PQR_ALWAYS_INLINE void each(Visit visit) const {
      using Ids = Vector<std::uint32_t, sizeof(V) / sizeof(float)>;
      const Ids ids = read_as<Ids>(blocks);
      for (std::uint32_t block = 0; block < 5; ++block) visit(of.rules[block], ids == block);
    }
  };
  PQR_ALWAYS_INLINE From from(std::size_t i) const { return {*this, blocks + i}; }
};

// The rules of a row's coordinates.
template <class Optimizer>
PQR_ALWAYS_INLINE inline auto rules_of(const Optimizer& optimizer, const Coordinates& c) {
  const auto at = [&](Block block)
                      PQR_ALWAYS_INLINE { return optimizer.template at<float>(block); };
  if constexpr (Optimizer::by_block) {
    return ByBlock<decltype(at(Block::linear))>{
        {at(Block::bias), at(Block::linear), at(Block::pair), at(Block::shared), at(Block::square)},
        c.blocks.data()};
  } else {
    (void)c;
    return Same<decltype(at(Block::linear))>{at(Block::linear)};
  }
}

// Takes slots from where they are and adds w x to the sum, where w = weight(slot). In between it
// asks for what is coming. `rules` are those of the row's coordinates. It `keeps` slots and weights
// where a step needs them.
template <bool keeps, std::size_t width, class Rules, class At>
PQR_ALWAYS_INLINE inline void weigh_slots(const Rules& rules, At at, const float* x,
                                          std::size_t size, Weighed* weighed, Sum<width>& sum,
                                          Coming coming = {}) {
  using Floats = Vector<float, width>;
  Sum<width> own = sum;
  for (std::size_t i = 0; i < size; i += lanes, ++weighed) {
    coming.fetch_some(i);
    for (std::size_t p = 0; p < lanes / width; ++p) {
      const std::size_t from = i + p * width;
      const Slot<Floats> slots =
          take<width>([=](std::size_t l) PQR_ALWAYS_INLINE { return at(from + l); });
      const Floats weights = rules.from(from).weight(slots), values = read<width>(x + from);
      own.part[p] += weights * values;
      if constexpr (!keeps) continue;
      write(weighed->z + p * width, slots.z);
      write(weighed->root_n + p * width, slots.root_n);
      write(weighed->w + p * width, weights);
    }
  }
  coming.fetch_rest(size);
  sum = own;
}

// The largest |x|.
PQR_ALWAYS_INLINE inline float largest_of(const float* x, std::size_t size) {
  using Floats = Vector<float, lanes>;
  Floats most{};
  const std::size_t whole = size / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    most = larger(most, magnitude(read_as<Floats>(x + i)));
  }
  float largest = 0.0f;
  for (std::size_t l = 0; l < lanes; ++l) largest = larger(largest, most[l]);
  for (std::size_t i = whole; i < size; ++i) largest = larger(largest, std::fabs(x[i]));
  return largest;
}

// What an optimizer sums over a row's slots, in double: `lanes` strided partial sums, then the same
// tree as that of a row's sum.
template <class Optimizer>
double sum_of_terms(const Coordinates& c) {
  double part[lanes] = {};
  c.with_places([&](auto at) {
    for (std::size_t i = 0; i < c.padded(); i += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) part[l] += Optimizer::term(at(i + l)->z);
    }
  });
  return sum_of_parts(part);
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

// How many slots, of many that lie side by side, have a weight that is not zero.
template <class Rule>
std::size_t count_nonzeros(bool avx2, Rule rule, const Slot<float>* slots, std::size_t size) {
  return vectorised(avx2, [=](auto at_a_time) PQR_ALWAYS_INLINE {
    constexpr std::size_t width = at_a_time;
    const std::size_t whole = size / width * width;
    std::size_t count = 0;
    Vector<std::int32_t, width> counts = {};
    for (std::size_t i = 0; i < whole; i += width) {
      const auto from = [first = slots + i](std::size_t l) PQR_ALWAYS_INLINE { return first + l; };
      counts -= rule.weight(take<width>(from)) != 0.0f;
    }
    for (std::size_t l = 0; l < width; ++l) count += static_cast<std::size_t>(counts[l]);
    for (std::size_t i = whole; i < size; ++i) count += rule.weight(slots[i]) != 0.0f;
    return count;
  });
}

// slot = step(slot, w, slope * x), and back to where they are.
template <std::size_t width, class Rules, class At>
PQR_ALWAYS_INLINE inline void step_slots(const Rules& rules, At at, const float* x,
                                         std::size_t size, const Weighed* weighed, float slope,
                                         Coming coming = {}) {
  for (std::size_t i = 0; i < size; i += lanes, ++weighed) {
    coming.fetch_some(i);
    for (std::size_t p = 0; p < lanes; p += width) {
      const Slot<Vector<float, width>> before{read<width>(weighed->z + p),
                                              read<width>(weighed->root_n + p)};
      const auto slots = rules.from(i + p).step(before, read<width>(weighed->w + p),
                                                slope * read<width>(x + i + p));
      put<width>([=](std::size_t l) PQR_ALWAYS_INLINE { return at(i + p + l); }, slots);
    }
  }
  coming.fetch_rest(size);
}

}  // namespace pqr
