// XXH64 with seed 0, from its public specification (github.com/Cyan4973/xxHash, doc/
// xxhash_spec.md): four lanes that each take every fourth word of 8 bytes, then a mix of them.
// Finds damage at the speed of memory; it is no defence against forgery. Words are little-endian,
// like the machines that this runs on and the files it checks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes.hpp"

namespace pqr {

class Digest {
 public:
  void update(const unsigned char* data, std::size_t size) {
    if (size == 0) return;  // empty buffers may have no address
    const std::size_t waiting = length_ % stripe;
    length_ += size;
    if (waiting > 0) {
      const std::size_t taken = std::min(size, stripe - waiting);
      std::memcpy(rest_ + waiting, data, taken);
      if (waiting + taken < stripe) return;
      absorb(rest_, 1);
      data += taken;
      size -= taken;
    }
    absorb(data, size / stripe);
    if (size % stripe > 0) std::memcpy(rest_, data + size - size % stripe, size % stripe);
  }

  std::uint64_t value() const {
    std::uint64_t hash = (length_ < stripe ? prime5 : merged()) + length_;
    const unsigned char* at = rest_;
    std::size_t left = length_ % stripe;
    for (; left >= 8; left -= 8, at += 8) {
      hash = turn(hash ^ stirred(0, read_as<std::uint64_t>(at)), 27) * prime1 + prime4;
    }
    for (; left >= 4; left -= 4, at += 4) {
      hash = turn(hash ^ (read_as<std::uint32_t>(at) * prime1), 23) * prime2 + prime3;
    }
    for (; left > 0; --left, ++at) hash = turn(hash ^ (*at * prime5), 11) * prime1;
    hash = (hash ^ (hash >> 33)) * prime2;
    hash = (hash ^ (hash >> 29)) * prime3;
    return hash ^ (hash >> 32);
  }

 private:
  static constexpr std::size_t stripe = 32;
  static constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F,
                                 prime3 = 0x165667B19E3779F9, prime4 = 0x85EBCA77C2B2AE63,
                                 prime5 = 0x27D4EB2F165667C5;

  static std::uint64_t turn(std::uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

  static std::uint64_t stirred(std::uint64_t lane, std::uint64_t input) {
    return turn(lane + input * prime2, 31) * prime1;
  }

  void absorb(const unsigned char* data, std::size_t stripes) {
    std::uint64_t a = lanes_[0], b = lanes_[1], c = lanes_[2], d = lanes_[3];  // in registers
    for (; stripes > 0; --stripes, data += stripe) {
      a = stirred(a, read_as<std::uint64_t>(data));
      b = stirred(b, read_as<std::uint64_t>(data + 8));
      c = stirred(c, read_as<std::uint64_t>(data + 16));
      d = stirred(d, read_as<std::uint64_t>(data + 24));
    }
    lanes_[0] = a, lanes_[1] = b, lanes_[2] = c, lanes_[3] = d;
  }

  std::uint64_t merged() const {
    std::uint64_t hash =
        turn(lanes_[0], 1) + turn(lanes_[1], 7) + turn(lanes_[2], 12) + turn(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = (hash ^ stirred(0, lane)) * prime1 + prime4;
    return hash;
  }

  std::uint64_t lanes_[4] = {prime1 + prime2, prime2, 0, 0 - prime1};
  std::uint64_t length_ = 0;
  unsigned char rest_[stripe] = {};
};

}  // namespace pqr
