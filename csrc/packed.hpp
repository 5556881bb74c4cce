// Values of moderately dense keys, stored without gaps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "prefetch.hpp"

namespace pqr {

// How many bits are set. Nearly every x86 has an instruction for it, but a compiler may not use it
// in code for all of them.
inline std::uint32_t bits_set(std::uint64_t bits) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(PQR_PORTABLE)
  if (__builtin_cpu_supports("popcnt")) {
    asm("popcnt %0, %0" : "+r"(bits));
    return static_cast<std::uint32_t>(bits);
  }
#endif
  return static_cast<std::uint32_t>(__builtin_popcountll(bits));
}

// Up to 512 keys that differ in their last nine bits. A bit for each says whether it has a value;
// values lie side by side, in order of key.
template <class T>
class Packed {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

 public:
  static constexpr std::uint32_t keys = 512;  // a cache line of bits; with more, add() moves more

  Packed() = default;
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed() { std::free(values_); }

  T* find(std::uint32_t key) const { return has(key) ? values_ + position(key) : nullptr; }

  // Prefetches the bit of a key.
  void prefetch(std::uint32_t key) const {
    fetch(&bits_[word_of(key)]);
    fetch(&values_);
  }
  // Prefetches the value of a key whose bit has arrived in the cache.
  void prefetch_value(std::uint32_t key) const {
    if (has(key)) fetch_value(values_ + position(key));
  }

  // Makes the value of a key that has none. Voids all pointers to values.
  T* add(std::uint32_t key) {
    const std::uint32_t count = before_[words - 1] + bits_set(bits_[words - 1]), at = position(key);
    if (bytes(count + 1) != bytes(count)) grow(count);
    std::copy_backward(values_ + at, values_ + count, values_ + count + 1);
    values_[at] = T{};
    set(key);
    return values_ + at;
  }

  // Calls visit(key, value) in order of key. `first` is the first key of this group.
  template <class Visit>
  void each(std::uint32_t first, Visit visit) const {
    T* value = values_;
    for (std::uint64_t left : bits_) {
      for (; left != 0; left &= left - 1) {
        visit(first + static_cast<std::uint32_t>(__builtin_ctzll(left)), *value++);
      }
      first += 64;
    }
  }

 private:
  static constexpr std::uint32_t words = keys / 64;

  T* values_ = nullptr;
  std::uint16_t before_[words] = {};  // values of the words in front of each
  std::uint64_t bits_[words] = {};

  static std::uint32_t word_of(std::uint32_t key) { return key % keys / 64; }
  static std::uint64_t bit_of(std::uint32_t key) { return std::uint64_t{1} << (key % 64); }
  // Sizes are rounded up to what malloc() hands out.
  static std::size_t bytes(std::size_t count) {
    constexpr std::size_t unit = alignof(std::max_align_t);
    return (count * sizeof(T) + unit - 1) / unit * unit;
  }

  bool has(std::uint32_t key) const { return bits_[word_of(key)] & bit_of(key); }

  // How many values are in front of that of the key.
  std::uint32_t position(std::uint32_t key) const {
    const std::uint32_t word = word_of(key);
    return before_[word] + bits_set(bits_[word] & (bit_of(key) - 1));
  }
  void set(std::uint32_t key) {
    bits_[word_of(key)] |= bit_of(key);
    for (std::uint32_t w = word_of(key) + 1; w < words; ++w) ++before_[w];
  }

  // realloc() often needs no copy, and leaves fewer holes.
  [[gnu::noinline]] void grow(std::uint32_t count) {
    void* const longer = std::realloc(static_cast<void*>(values_), bytes(count + 1));
    if (!longer) throw std::bad_alloc();
    values_ = static_cast<T*>(longer);
  }
};

}  // namespace pqr
