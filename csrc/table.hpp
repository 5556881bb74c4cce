// Values by 32-bit key. Exact, never hashed together: a key that was made has a
// value of its own, one that was not costs nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace pqr {

// Open addressing with linear probing, at most three quarters full. Keys are all
// of uint32 but the last. When `universe` keys fit into the memory of the next
// size, it turns into a plain array indexed by key.
template <class T>
class HashTable {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFFu;

  T* find(std::uint32_t key) const {
    if (direct()) return key < size_ ? values() + key : nullptr;
    if (size_ == 0) return nullptr;
    for (std::uint32_t at = home(key);; at = (at + 1) & (size_ - 1)) {
      Entry& entry = entries()[at];
      if (entry.key == key) return &entry.value;
      if (entry.key == none) return nullptr;
    }
  }

  // Finds or makes. `moved` turns true when pointers handed out before are void.
  T* make(std::uint32_t key, std::uint32_t universe, bool& moved) {
    if (direct()) return values() + key;
    std::uint32_t at = 0;
    if (size_ != 0) {
      for (at = home(key);; at = (at + 1) & (size_ - 1)) {
        Entry& entry = entries()[at];
        if (entry.key == key) return &entry.value;
        if (entry.key == none) break;
      }
    }
    if (4 * (std::uint64_t{used_} + 1) > 3 * std::uint64_t{size_}) {
      grow(universe);
      moved = true;
      return make(key, universe, moved);
    }
    ++used_;
    entries()[at] = {key, T{}};
    return &entries()[at].value;
  }

  void prefetch(std::uint32_t key) const {
    if (size_ == 0) return;
    if (direct()) {
      __builtin_prefetch(values() + key, 1);
    } else {
      __builtin_prefetch(entries() + home(key), 1);
    }
  }

  template <class Visit>
  void each(Visit visit) const {
    for (std::uint32_t at = 0; at < size_; ++at) {
      if (direct()) {
        visit(at, values()[at]);
      } else if (entries()[at].key != none) {
        visit(entries()[at].key, entries()[at].value);
      }
    }
  }

  std::uint32_t used() const { return used_; }

  // Room for `count` keys in all, in a table that has none yet. Without it, filling a table in
  // the order of another one's places would pile keys up at its start.
  void reserve(std::uint32_t count) {
    std::uint64_t size = first_size;
    while (4 * std::uint64_t{count} > 3 * size) size *= 2;
    allocate(size);
  }

 private:
  struct Entry {
    std::uint32_t key;
    T value;
  };
  static constexpr std::uint32_t first_size = 4;
  static constexpr std::uint32_t direct_mark = none;

  std::unique_ptr<unsigned char[]> memory_;  // Entry[size_], or T[size_] when direct
  std::uint32_t size_ = 0;
  std::uint32_t used_ = 0;

  bool direct() const { return used_ == direct_mark; }
  Entry* entries() const { return reinterpret_cast<Entry*>(memory_.get()); }
  T* values() const { return reinterpret_cast<T*>(memory_.get()); }

  // Fibonacci hashing: the high bits of the product, folded to the table's size.
  std::uint32_t home(std::uint32_t key) const {
    return static_cast<std::uint32_t>((std::uint64_t{key * 0x9E3779B9u} * size_) >> 32);
  }

  void grow(std::uint32_t universe) {
    HashTable bigger;
    const std::uint64_t size = size_ == 0 ? first_size : 2 * std::uint64_t{size_};
    if (universe * std::uint64_t{sizeof(T)} <= size * sizeof(Entry)) {
      bigger.memory_.reset(new unsigned char[universe * sizeof(T)]);
      bigger.size_ = universe;
      bigger.used_ = direct_mark;
      std::uninitialized_fill_n(bigger.values(), universe, T{});
      each([&](std::uint32_t key, const T& value) { bigger.values()[key] = value; });
    } else {
      bigger.allocate(size);
      bool moved = false;
      each([&](std::uint32_t key, const T& value) { *bigger.make(key, universe, moved) = value; });
    }
    *this = std::move(bigger);
  }

  void allocate(std::uint64_t size) {
    memory_.reset(new unsigned char[size * sizeof(Entry)]);
    size_ = static_cast<std::uint32_t>(size);
    std::uninitialized_fill_n(entries(), size, Entry{none, T{}});
  }
};

// Values by feature. Where features come thick, a chunk of them is a plain array;
// the rest stay in a hash table. So memory follows what was seen: a single row
// with index 2^32-1 costs one entry, and dense numbering costs one load.
template <class T>
class Table {
 public:
  // A chunk turns into an array once `min_fill` of its features have been made.
  explicit Table(std::uint32_t min_fill = chunk_size / 4)
      : min_fill_(min_fill), settle_at_(min_fill) {}

  const T* find(std::uint32_t key) const {
    if (const T* chunk = chunk_of(key)) return chunk + (key & chunk_mask);
    if (key == HashTable<T>::none) return has_last_ ? &last_ : nullptr;
    return sparse_.find(key);
  }

  // Finds or makes. `moved` turns true when pointers handed out before are void.
  T* make(std::uint32_t key, bool& moved) {
    if (T* chunk = chunk_of(key)) return chunk + (key & chunk_mask);
    if (key == HashTable<T>::none) {
      has_last_ = true;
      return &last_;
    }
    if (sparse_.used() >= settle_at_ && sparse_.find(key) == nullptr) {
      settle();
      moved = true;
      return make(key, moved);
    }
    return sparse_.make(key, HashTable<T>::none, moved);
  }

  void prefetch(std::uint32_t key) const {
    if (const T* chunk = chunk_of(key)) {
      __builtin_prefetch(chunk + (key & chunk_mask), 1);
    } else {
      sparse_.prefetch(key);
    }
  }

  // In order of key.
  template <class Visit>
  void each_sorted(Visit visit) const {
    std::vector<std::pair<std::uint32_t, T>> sparse;
    sparse_.each([&](std::uint32_t key, const T& value) { sparse.emplace_back(key, value); });
    std::sort(sparse.begin(), sparse.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    auto next = sparse.begin();
    for (std::size_t c = 0; c < dense_.size(); ++c) {
      if (!dense_[c]) continue;
      const auto first = static_cast<std::uint32_t>(c << chunk_bits);
      for (; next != sparse.end() && next->first < first; ++next) visit(next->first, next->second);
      for (std::uint32_t i = 0; i < chunk_size; ++i) visit(first + i, dense_[c][i]);
    }
    for (; next != sparse.end(); ++next) visit(next->first, next->second);
    if (has_last_) visit(HashTable<T>::none, last_);
  }

 private:
  static constexpr std::uint32_t chunk_bits = 12;
  static constexpr std::uint32_t chunk_size = 1u << chunk_bits;
  static constexpr std::uint32_t chunk_mask = chunk_size - 1;

  std::vector<std::unique_ptr<T[]>> dense_;
  HashTable<T> sparse_;
  T last_{};  // of key 2^32-1, which the hash table cannot hold
  bool has_last_ = false;
  std::uint32_t min_fill_;
  std::uint32_t settle_at_;

  T* chunk_of(std::uint32_t key) const {
    const std::size_t chunk = key >> chunk_bits;
    return chunk < dense_.size() ? dense_[chunk].get() : nullptr;
  }

  // Turns the chunks that have filled up into arrays.
  void settle() {
    std::vector<std::uint32_t> chunks;
    chunks.reserve(sparse_.used());
    sparse_.each([&](std::uint32_t key, const T&) { chunks.push_back(key >> chunk_bits); });
    std::sort(chunks.begin(), chunks.end());
    for (auto first = chunks.begin(); first != chunks.end();) {
      const auto last = std::upper_bound(first, chunks.end(), *first);
      if (last - first >= static_cast<std::ptrdiff_t>(min_fill_)) {
        if (*first >= dense_.size()) dense_.resize(*first + 1);
        dense_[*first] = std::make_unique<T[]>(chunk_size);
      }
      first = last;
    }
    HashTable<T> rest;
    rest.reserve(sparse_.used());
    bool moved = false;
    sparse_.each([&](std::uint32_t key, const T& value) {
      T* chunk = chunk_of(key);
      *(chunk ? chunk + (key & chunk_mask) : rest.make(key, HashTable<T>::none, moved)) = value;
    });
    sparse_ = std::move(rest);
    settle_at_ = std::max(min_fill_, 2 * sparse_.used());
  }
};

// Values by pair of ranks i < j. Row j of the triangle is a table of its own: the
// pairs of a rare feature lie together in a cache line or two, those of the most
// frequent ones form plain arrays, and growth never copies more than one row.
template <class T>
class PairTable {
 public:
  std::size_t size() const { return rows_.size(); }
  void resize(std::size_t order) { rows_.resize(order); }

  HashTable<T>& row(std::uint32_t j) { return rows_[j]; }
  const HashTable<T>& row(std::uint32_t j) const { return rows_[j]; }

  // In order of (j, i).
  template <class Visit>
  void each_sorted(Visit visit) const {
    std::vector<std::pair<std::uint32_t, T>> row;
    for (std::size_t j = 0; j < rows_.size(); ++j) {
      row.clear();
      rows_[j].each([&](std::uint32_t i, const T& value) { row.emplace_back(i, value); });
      std::sort(row.begin(), row.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [i, value] : row) visit(i, static_cast<std::uint32_t>(j), value);
    }
  }

 private:
  std::vector<HashTable<T>> rows_;
};

}  // namespace pqr
