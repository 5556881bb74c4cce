// Texts -> codes: each different text has one, in order of first appearance; an empty one has -1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace pqr {

class Coding {
 public:
  std::vector<std::int64_t> offsets{0};  // of the different texts in `bytes`
  std::vector<std::uint8_t> bytes;

  std::int32_t code(std::string_view text) {
    if (text.empty()) return -1;
    const std::uint64_t mixed = hash(text);
    const auto tag = static_cast<std::uint32_t>(mixed >> 32);
    std::size_t at = static_cast<std::size_t>(mixed) & mask_;
    for (; places_[at].code >= 0; at = (at + 1) & mask_) {
      if (places_[at].tag == tag && same(text, places_[at].code)) return places_[at].code;
    }
    const auto next = static_cast<std::int32_t>(offsets.size() - 1);
    places_[at] = {tag, next};
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
    if (2 * offsets.size() > places_.size()) grow();
    return next;
  }

 private:
  struct Place {
    std::uint32_t tag = 0;
    std::int32_t code = -1;
  };
  std::vector<Place> places_ = std::vector<Place>(1024);  // at most half of them taken
  std::size_t mask_ = 1023;

  std::string_view text(std::int32_t code) const {
    const auto at = static_cast<std::size_t>(code);
    return {reinterpret_cast<const char*>(bytes.data()) + offsets[at],
            static_cast<std::size_t>(offsets[at + 1] - offsets[at])};
  }
  // As ==, without a call.
  bool same(std::string_view a, std::int32_t code) const {
    const std::string_view b = text(code);
    if (a.size() != b.size()) return false;
    if (a.size() < 8) return few_bytes(a) == few_bytes(b);
    for (std::size_t i = 0; i + 8 < a.size(); i += 8) {
      if (load(a.data() + i, 8) != load(b.data() + i, 8)) return false;
    }
    return load(a.data() + a.size() - 8, 8) == load(b.data() + b.size() - 8, 8);
  }

  // Eight bytes at a time; of a text with fewer, two words that cover it.
  static std::uint64_t hash(std::string_view text) {
    std::uint64_t h = text.size();
    const char* at = text.data();
    const char* const end = at + text.size();
    if (text.size() < 8) return finish(mix(h, few_bytes(text)));
    for (; end - at > 8; at += 8) h = mix(h, load(at, 8));
    return finish(mix(h, load(end - 8, 8)));
  }
  // All of one to seven, some of them twice.
  static std::uint64_t few_bytes(std::string_view text) {
    const char* const at = text.data();
    const std::size_t size = text.size();
    if (size >= 4) return load(at, 4) << 32 | load(at + size - 4, 4);
    const auto byte = [at](std::size_t i) {
      return std::uint64_t{static_cast<unsigned char>(at[i])};
    };
    return byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
  }
  static std::uint64_t load(const char* at, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, size);
    return word;
  }
  static std::uint64_t mix(std::uint64_t h, std::uint64_t word) {
    h = (h ^ word) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 32);
  }
  static std::uint64_t finish(std::uint64_t h) {
    h *= 0xD6E8FEB86659FD93ull;
    return h ^ (h >> 32);
  }

  void grow() {
    places_.assign(2 * places_.size(), Place{});
    mask_ = places_.size() - 1;
    for (std::size_t code = 0; code + 1 < offsets.size(); ++code) {
      const std::uint64_t mixed = hash(text(static_cast<std::int32_t>(code)));
      std::size_t at = static_cast<std::size_t>(mixed) & mask_;
      while (places_[at].code >= 0) at = (at + 1) & mask_;
      places_[at] = {static_cast<std::uint32_t>(mixed >> 32), static_cast<std::int32_t>(code)};
    }
  }
};

}  // namespace pqr
