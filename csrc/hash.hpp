// Values by 32-bit key in buckets of a cache line.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "prefetch.hpp"
#include "seed.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace pqr {

// Open addressing in buckets of five keys with their values: for slots of eight
// bytes a bucket is one cache line, and a look-up compares five keys at once. Values that fill a
// cache line have one each, behind that of their keys.
template <class T>
class HashTable {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= cache_line);

 public:
  explicit HashTable(const Seed& seed = Seed::of_process()) : seed_(seed) {}

  T* find(std::uint32_t key) const {
    if (size_ == 0) return nullptr;
    for (std::uint32_t at = home(key), last = size_ - 1;; at = (at + 1) & last) {
      Bucket& bucket = buckets()[at];
      if (const unsigned bits = bucket.match(key)) return bucket.values + __builtin_ctz(bits);
      if (bucket.used < width || last == 0) return nullptr;
    }
  }

  // Finds or makes. `moved` turns true when pointers handed out before are void.
  T* make(std::uint32_t key, bool& moved) {
    T* found = find(key);
    return found ? found : add(key, moved);
  }

  // Prefetches the keys: which value it will be is not known before.
  void prefetch(std::uint32_t key) const {
    if (size_ != 0) fetch(buckets() + home(key));
  }

  template <class Visit>
  void each(Visit visit) const {
    for (std::uint32_t at = 0; at < size_; ++at) {
      Bucket& bucket = buckets()[at];
      for (std::uint32_t i = 0; i < bucket.used; ++i) visit(bucket.keys[i], bucket.values[i]);
    }
  }

  std::uint32_t used() const { return used_; }

  // Reserves memory for `count` keys, in a table that has none yet. Without it, filling a table in
  // the order of another one's buckets would crowd the first buckets.
  void reserve(std::uint32_t count) {
    std::uint64_t size = 1;
    while (count > capacity(size)) size *= 2;
    allocate(size);
  }

 private:
  static constexpr std::uint32_t width = 5;  // keys: with slots of 8 bytes and `used`, 64 bytes

  struct Bucket {
    std::uint32_t keys[width];
    std::uint32_t used;
    T values[width];

    T* push(std::uint32_t key) {
      keys[used] = key;
      values[used] = T{};
      return &values[used++];
    }

    // Bit i is set when keys[i] is the key; at most one is. Without a branch for each key, which no
    // predictor would guess.
    unsigned match(std::uint32_t key) const {
      unsigned bits = unsigned{keys[4] == key} << 4;
#ifdef __SSE2__
      const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys));
      const __m128i equal = _mm_cmpeq_epi32(four, _mm_set1_epi32(static_cast<int>(key)));
      bits |= static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(equal)));
#else
      for (unsigned i = 0; i < 4; ++i) bits |= unsigned{keys[i] == key} << i;
#endif
      return bits & ((1u << used) - 1);
    }
  };
  static constexpr std::align_val_t alignment{cache_line};

  struct Free {
    void operator()(unsigned char* memory) const { ::operator delete[](memory, alignment); }
  };
  std::unique_ptr<unsigned char[], Free> memory_;  // Bucket[size_]
  Seed seed_;
  std::uint32_t size_ = 0;
  std::uint32_t used_ = 0;

  static std::uint64_t capacity(std::uint64_t buckets) {
    return buckets == 1 ? width : buckets * 15 / 4;  // three quarters: longer probes cost more
  }
  Bucket* buckets() const { return reinterpret_cast<Bucket*>(memory_.get()); }

  // 32 mixed bits, folded to the table's size.
  std::uint32_t home(std::uint32_t key) const {
    return static_cast<std::uint32_t>((std::uint64_t{seed_.mix(key)} * size_) >> 32);
  }

  // A key that is not there.
  [[gnu::noinline]] T* add(std::uint32_t key, bool& moved) {
    if (used_ >= capacity(size_)) {
      grow();
      moved = true;
    }
    return push(key);
  }

  T* push(std::uint32_t key) {
    std::uint32_t at = home(key);
    while (buckets()[at].used == width) at = (at + 1) & (size_ - 1);
    ++used_;
    return buckets()[at].push(key);
  }

  void grow() {
    HashTable bigger(seed_);
    bigger.allocate(size_ == 0 ? 1 : 2 * std::uint64_t{size_});
    each([&](std::uint32_t key, const T& value) { *bigger.push(key) = value; });
    *this = std::move(bigger);
  }

  void allocate(std::uint64_t size) {
    memory_.reset(static_cast<unsigned char*>(::operator new[](size * sizeof(Bucket), alignment)));
    size_ = static_cast<std::uint32_t>(size);
    std::uninitialized_value_construct_n(buckets(), size);
  }
};

}  // namespace pqr
