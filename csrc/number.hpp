// Numbers and tokens in hostile text. Every function is given the end and never
// reads at or after it, except load_eight, whose callers make sure of eight bytes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>

#include "platform/from_chars.hpp"

namespace pqr {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_separator(char c) { return c == ' ' || c == '\t'; }
constexpr bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

inline bool ends_token(const char* p, const char* end) {
  return p == end || is_separator(*p) || *p == '#';
}

inline const char* token_end(const char* p, const char* end) {
  while (!ends_token(p, end)) ++p;
  return p;
}

inline const char* skip_separators(const char* p, const char* end) {
  while (p != end && is_separator(*p)) ++p;
  return p;
}

// Eight bytes, the first one lowest. Compilers turn this into one load.
inline std::uint64_t load_eight(const char* p) {
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= std::uint64_t{static_cast<unsigned char>(p[i])} << (8 * i);
  return word;
}

inline std::size_t lowest_bit(std::uint64_t word) {
  return static_cast<std::size_t>(__builtin_ctzll(word));
}

// The number that eight digits spell; a zero byte counts as a digit 0.
inline std::uint32_t eight_digits(std::uint64_t word) {
  word &= 0x0f0f0f0f0f0f0f0f;
  word = word * 10 + (word >> 8);  // pairs, then fours, then all eight
  constexpr std::uint64_t mask = 0x000000ff000000ff;
  word = (word & mask) * (100 + (std::uint64_t{1000000} << 32)) +
         ((word >> 16) & mask) * (1 + (std::uint64_t{10000} << 32));
  return static_cast<std::uint32_t>(word >> 32);
}

struct Digits {
  std::size_t count;
  std::uint32_t number;
};

// The digits that eight bytes begin with, all at once: the length of an index is
// exactly what a branch predictor cannot guess. Adding 0x46 sets the high bit of bytes
// above '9'. Carries and borrows only reach bytes after the first that is no digit.
inline Digits leading_digits(const char* p) {
  constexpr std::uint64_t each_byte = 0x0101010101010101;
  const std::uint64_t word = load_eight(p);
  const std::uint64_t others =
      ((word + each_byte * 0x46) | (word - each_byte * '0')) & (each_byte * 0x80);
  const std::size_t bits = others == 0 ? 64 : lowest_bit(others) - 7;
  if (bits == 0) return {0, 0};
  return {bits / 8, eight_digits(word << (64 - bits))};
}

template <class Float>
inline constexpr std::size_t exact_power = 10;  // 10^10 is the last one that a float holds
template <>
inline constexpr std::size_t exact_power<double> = 22;

inline constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// A short unsigned decimal without exponent, or nullptr. One division of two exact
// numbers is rounded once, hence correctly.
template <class Float>
const char* short_decimal(const char* p, const char* end, Float& value) {
  std::uint64_t digits = 0;
  const char* const begin = p;
  for (; p != end && is_digit(*p); ++p) digits = digits * 10 + static_cast<unsigned>(*p - '0');
  auto count = static_cast<std::size_t>(p - begin);
  std::size_t fraction = 0;
  if (p != end && *p == '.') {
    const char* const point = p++;
    for (; p != end && is_digit(*p); ++p) digits = digits * 10 + static_cast<unsigned>(*p - '0');
    fraction = static_cast<std::size_t>(p - point) - 1;
    count += fraction;
  }
  constexpr std::uint64_t exact = std::uint64_t{1} << std::numeric_limits<Float>::digits;
  if (count == 0 || count > 19 || digits > exact || fraction > exact_power<Float>) return nullptr;
  if (p != end && (*p == 'e' || *p == 'E')) return nullptr;
  value = static_cast<Float>(digits) / static_cast<Float>(powers[fraction]);
  return p;
}

// A number out of range is huge or tiny; the decimal exponent of its first digit
// tells which.
inline bool is_huge(const char* p, const char* end) {
  std::int64_t exponent = 0;
  bool fraction = false, started = false;
  for (; p != end && (is_digit(*p) || *p == '.'); ++p) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    started = started || *p != '0';
    if (started && !fraction) ++exponent;
    if (!started && fraction) --exponent;
  }
  if (p == end || (*p != 'e' && *p != 'E')) return exponent > 0;
  ++p;
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) ++p;
  std::int32_t written = 0;  // one that does not fit outweighs all digits of a line
  if (std::from_chars(p, end, written).ec != std::errc{}) return !negative;
  return (negative ? exponent - written : exponent + written) > 0;
}

inline bool same_word(const char* p, const char* end, const char* word) {
  for (; *word != '\0'; ++p, ++word) {
    if (p == end || (*p != *word && *p != *word - 'a' + 'A')) return false;
  }
  return ends_token(p, end) || *p == ':';
}

enum class Trouble : std::uint8_t { none, not_number, not_finite, too_large };

template <class Float>
struct Number {
  Float value;
  Trouble trouble;
  const char* next;
};

// The number that starts at p, without regard to what follows it.
template <class Float>
Number<Float> read_number(const char* p, const char* end) {
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) ++p;
  Float value = 0;
  const char* next = short_decimal(p, end, value);
  if (next == nullptr) {
    if (same_word(p, end, "nan") || same_word(p, end, "inf") || same_word(p, end, "infinity")) {
      return {0, Trouble::not_finite, p};
    }
    if (p == end || !(is_digit(*p) || *p == '.')) return {0, Trouble::not_number, p};
    const std::from_chars_result read = from_chars(p, end, value);
    if (read.ec == std::errc::invalid_argument) return {0, Trouble::not_number, p};
    if (read.ec == std::errc::result_out_of_range || std::isinf(value)) {
      if (is_huge(p, end)) return {0, Trouble::too_large, p};
      value = 0;
    }
    next = read.ptr;
  }
  return {negative ? -value : value, Trouble::none, next};
}

}  // namespace pqr
