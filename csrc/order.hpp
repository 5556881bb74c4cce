// Few keys in order, without branches: sorting them would take comparisons that no
// predictor guesses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pqr {

constexpr std::size_t few_keys = 64;

// How many of up to `few_keys` keys are smaller than each, which is its place when all differ.
// Returns whether they do.
inline bool places_in_order(const std::uint32_t* keys, std::size_t size, std::uint32_t* places) {
  using Four = std::int32_t __attribute__((vector_size(16)));
  constexpr std::size_t fours = 4;             // that are compared with a key at a time
  std::int32_t flipped[few_keys + 4 * fours];  // vectors compare with a sign
  std::fill_n(flipped + size, 4 * fours, 0);
  for (std::size_t i = 0; i < size; ++i) {
    flipped[i] = static_cast<std::int32_t>(keys[i] ^ 0x80000000u);
  }
  std::uint32_t found[few_keys + 4 * fours];
  for (std::size_t first = 0; first < size; first += 4 * fours) {
    Four mine[fours], smaller[fours] = {};
    std::memcpy(mine, flipped + first, sizeof mine);
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t key = flipped[i];
      for (std::size_t f = 0; f < fours; ++f) smaller[f] -= key < mine[f];
    }
    std::memcpy(found + first, smaller, sizeof smaller);
  }
  std::size_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) {
    places[i] = found[i];
    sum += found[i];
  }
  return size == 0 || sum == size * (size - 1) / 2;
}

}  // namespace pqr
