// Few keys in order, without branches: sorting them would take comparisons that no
// predictor guesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "avx2.hpp"

namespace pqr {

constexpr std::size_t few_keys = 64;
constexpr std::size_t more_keys = 16;  // that arrays have room for: keys are taken by sixteens

// How many of up to `few_keys` keys are smaller than each, which is its place when all differ.
// Returns whether they do. `width` is how many numbers the machine compares at a time: of vectors
// that it does not have, GCC compares one number after the other.
template <std::size_t width = 4>
PQR_ALWAYS_INLINE inline bool places_in_order(const std::uint32_t* keys, std::size_t size,
                                              std::uint32_t* places) {
  typedef std::int32_t Some __attribute__((vector_size(width * sizeof(std::int32_t))));
  constexpr std::size_t parts = more_keys / width;
  constexpr std::int32_t flipped = INT32_MIN;  // vectors compare with a sign
  for (std::size_t first = 0; first < size; first += more_keys) {
    Some mine[parts], smaller[parts] = {};
    std::memcpy(mine, keys + first, sizeof mine);
    for (Some& part : mine) part ^= flipped;
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t key = static_cast<std::int32_t>(keys[i]) ^ flipped;
      for (std::size_t p = 0; p < parts; ++p) smaller[p] -= key < mine[p];
    }
    std::memcpy(places + first, smaller, sizeof smaller);
  }
  std::size_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += places[i];
  return size == 0 || sum == size * (size - 1) / 2;
}

}  // namespace pqr
