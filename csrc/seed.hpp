// Where keys from outside are hashed, the hash differs from process to process: whoever does not
// know the seed cannot choose keys that collide. Nothing that is saved or predicted depends on it.
#pragma once

#include <cstdint>
#include <random>

namespace pqr {

struct Seed {
  std::uint64_t start, factor;  // the factor is odd, so that multiplying loses nothing

  static Seed random() {
    std::random_device device;
    const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
    return {word(), word() | 1};
  }
  static const Seed& of_process() {
    static const Seed seed = random();
    return seed;
  }

  // Of a short key. One product alone would leave keys that follow each other in a pattern, which
  // some factors spread badly.
  std::uint32_t mix(std::uint32_t key) const {
    std::uint64_t mixed = (key ^ start) * factor;
    mixed = (mixed ^ mixed >> 32) * factor;
    return static_cast<std::uint32_t>(mixed >> 32);
  }

  // Of the next word of a longer one: folds the 128 bits of a product, in which each bit depends on
  // every bit of the word.
  std::uint64_t mix(std::uint64_t hash, std::uint64_t word) const {
    __extension__ using Product = unsigned __int128;
    const Product product = Product{hash ^ word} * factor;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
};

}  // namespace pqr
