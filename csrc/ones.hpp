// Runs of features whose value is 1, of which most rows of clicks consist: "17:1 420:1 ". The
// colons are found first, 64 bytes at a time. The numbers before them are then read four at a time,
// and none waits for where the one before it ends.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes.hpp"
#include "number.hpp"

#ifdef PQR_AVX2
#include <immintrin.h>
#endif

namespace pqr {

class OnesReader {
 public:
  struct Run {
    std::size_t count;
    const char* next;
  };

  // The ones from p on that have up to eight digits and a single space, or the end, after them.
  // Returns none, with the arrays in any state, if they are few (32 bytes, four features: the
  // set-up would cost more), if one has another index, if the row is very long, or if fewer than
  // the 64 bytes that are compared at a time may be read from `end` to `limit`.
  Run read(const char* p, const char* end, const char* limit, std::uint32_t* indices,
           float* values) {
#ifdef PQR_AVX2
    const auto bytes = static_cast<std::size_t>(end - p);
    if (!avx2_ || bytes < 32 || bytes > longest || limit - end < 64) return {0, p};
    const std::size_t count = find_starts(p, bytes);
    if (count < 4 || count > (bytes + 1) / 4) return {0, p};  // "1:1 " is the shortest
    if (!read_indices(p, count, indices, values)) return {0, p};
    return {count, std::min(p + starts_[count], end)};
#else
    return (void)end, (void)limit, (void)indices, (void)values, Run{0, p};
#endif
  }

#ifdef PQR_AVX2
 private:
  const bool avx2_ = has_avx2();
  static constexpr std::size_t longest = std::size_t{1} << 14;  // bytes: 22 kB of starts stay in L1
  std::array<std::uint32_t, longest / 3 + 1> starts_;  // the features', and where one more would be

  // Counts the features before the first one whose value is not 1.
  PQR_AVX2 std::size_t find_starts(const char* begin, std::size_t bytes) {
    if ((equal(begin, ':') & 0x1ff) == 0) return 0;  // where one index is longer, most are
    const std::size_t last = bytes - 2;              // where the colon of a one at the end is
    std::uint32_t* start = starts_.data();
    *start = 0;
    std::uint64_t others = 0;
    for (std::size_t at = 0; at < last && others == 0; at += 64) {
      const char* const p = begin + at;
      std::uint64_t colons = equal(p, ':');
      if (last - at < 64) colons &= (std::uint64_t{1} << (last - at)) - 1;
      others = colons & ~(equal(p + 1, '1') & equal(p + 2, ' '));
      if (others != 0) colons &= (others - 1) & ~others;
      for (; colons != 0; colons &= colons - 1) {
        *++start = static_cast<std::uint32_t>(at + lowest_bit(colons) + 3);
      }
    }
    if (others == 0 && begin[last] == ':' && begin[last + 1] == '1') {
      *++start = static_cast<std::uint32_t>(last + 3);
    }
    return static_cast<std::size_t>(start - starts_.data());
  }

  // Which of 64 bytes are `c`, the first one lowest.
  PQR_AVX2 static std::uint64_t equal(const char* p, char c) {
    std::uint64_t bits = 0;
    for (int half = 0; half < 2; ++half) {
      const __m256i same = _mm256_cmpeq_epi8(load(p + 32 * half), _mm256_set1_epi8(c));
      bits |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(same))} << 32 * half;
    }
    return bits;
  }

  // Four at a time, some of the last ones twice. False when an index has no digits, more than
  // eight, or anything else in it.
  PQR_AVX2 bool read_indices(const char* begin, std::size_t count, std::uint32_t* indices,
                             float* values) const {
    __m256i largest = _mm256_setzero_si256();
    for (std::size_t i = 0; i < count; i += 4) {
      const std::size_t first = std::min(i, count - 4);
      const std::uint32_t* const start = starts_.data() + first;
      // What follows the digits is shifted out of their eight bytes; three of it belong to ":1 ".
      const __m128i bytes = _mm_sub_epi32(load_four(start + 1), load_four(start));
      const __m128i shift = _mm_sub_epi32(_mm_set1_epi32(8 * 11), _mm_slli_epi32(bytes, 3));
      if (!_mm_testz_si128(shift, _mm_set1_epi32(~(7 * 8)))) return false;
      const __m256i text = _mm256_xor_si256(load_words(begin, start), _mm256_set1_epi8('0'));
      const __m256i digits = _mm256_sllv_epi64(text, _mm256_cvtepu32_epi64(shift));
      largest = _mm256_max_epu8(largest, digits);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(indices + first), eight_digits_each(digits));
      _mm_storeu_ps(values + first, _mm_set1_ps(1.0f));
    }
    const __m256i others = _mm256_subs_epu8(largest, _mm256_set1_epi8(9));
    return _mm256_testz_si256(others, others) != 0;
  }

  // The numbers that four times eight digits spell: pairs, then fours, then all eight.
  PQR_AVX2 static __m128i eight_digits_each(__m256i digits) {
    const __m256i twos = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(10 | 1 << 8));
    const __m256i fours = _mm256_madd_epi16(twos, _mm256_set1_epi32(100 | 1 << 16));
    const __m256i close = _mm256_packus_epi32(fours, fours);  // in the first half of each half
    const __m256i eights = _mm256_madd_epi16(close, _mm256_set1_epi32(10000 | 1 << 16));
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(eights, 0 | 2 << 2));
  }

  PQR_AVX2 static __m256i load(const char* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  PQR_AVX2 static __m128i load_four(const std::uint32_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }

  // Eight bytes from each of four addresses.
  PQR_AVX2 static __m256i load_words(const char* begin, const std::uint32_t* at) {
    long long words[4];
    for (int w = 0; w < 4; ++w) std::memcpy(words + w, begin + at[w], sizeof words[w]);
    return _mm256_set_epi64x(words[3], words[2], words[1], words[0]);
  }
#endif
};

}  // namespace pqr
