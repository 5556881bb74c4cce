// Values by feature. Exact, never hashed together: a key that was made has a value of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "hash.hpp"
#include "packed.hpp"
#include "pages.hpp"
#include "prefetch.hpp"

namespace pqr {

// Memory follows what was seen, and dense numbering costs one load:
//   front   the first keys lie in one array, of which only pages in use have memory;
//   packed  of those beyond, chunks of 4,096 keys of which 64 or more were made have no gaps;
//   hashed  all others, so that a single row with index 2^32-1 costs one entry.
// T{} is all zeros.
template <class T>
class Table {
  static constexpr std::uint32_t chunk_keys = 4096;  // eight groups of packed ones

 public:
  // Few enough that scattered keys do not cost much more than packed ones would: 32 MB at most,
  // 8 MB of slots.
  static constexpr std::uint32_t front_keys =
      std::min<std::size_t>(1u << 20, (std::size_t{32} << 20) / sizeof(T));

  Table() : own_front_(front_keys), front_(own_front_.data()) {}
  // Its first keys lie in zeroed memory that the caller owns, or nowhere if that is null.
  explicit Table(T* front) : front_(front) {}

  const T* find(std::uint32_t key) const {
    return key < front_end_ ? front_ + key : find_beyond(key);
  }

  // Finds or makes. `moved` turns true when pointers to values beyond the front are void.
  T* make(std::uint32_t key, bool& moved) {
    if (key < front_end_) return front_ + key;
    if (key < front_keys && front_) {
      front_end_ = key / chunk_keys * chunk_keys + chunk_keys;
      return front_ + key;
    }
    T* const found = const_cast<T*>(find_beyond(key));
    return found ? found : add(key, moved);
  }
  T* make(std::uint32_t key) {
    bool moved = false;
    return make(key, moved);
  }

  // The front, if all of these keys lie there, which rise. Values there never move.
  T* front(const std::uint32_t* keys, std::size_t size) const {
    return size == 0 || keys[size - 1] < front_end_ ? front_ : nullptr;
  }
  // Prefetches the values of keys, which rise; of packed ones, the bitmap that locates them.
  void prefetch(const std::uint32_t* keys, std::size_t size) const {
    if (const T* const first = front(keys, size)) {
      for (std::size_t i = 0; i < size; ++i) fetch_value(first + keys[i]);
      return;
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (keys[i] < front_end_) {
        fetch_value(front_ + keys[i]);
      } else if (const Packed<T>* group = group_of(keys[i])) {
        group->prefetch(keys[i]);
      } else {
        sparse_.prefetch(keys[i]);
      }
    }
  }
  // Prefetches those that are packed, some rows after prefetch().
  void prefetch_packed(const std::uint32_t* keys, std::size_t size) const {
    if (front(keys, size)) return;
    for (std::size_t i = 0; i < size; ++i) {
      if (const Packed<T>* group = group_of(keys[i])) group->prefetch_value(keys[i]);
    }
  }

  // Calls visit(key, value) in order of key.
  template <class Visit>
  void each_sorted(Visit visit) const {
    for (std::uint32_t key = 0; key < front_end_; ++key) visit(key, front_[key]);
    std::vector<std::pair<std::uint32_t, T*>> sparse;
    sparse_.each([&](std::uint32_t key, T& value) { sparse.emplace_back(key, &value); });
    std::sort(sparse.begin(), sparse.end());  // keys differ
    auto next = sparse.begin();
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      for (; next != sparse.end() && next->first / chunk_keys < c; ++next) {
        visit(next->first, *next->second);
      }
      each_of_chunk(c, visit);
    }
    for (; next != sparse.end(); ++next) visit(next->first, *next->second);
  }

 private:
  static constexpr std::uint32_t packed_at = 64;     // keys: fewer take less memory when hashed
  static constexpr std::uint32_t settle_least = 64;  // hashed keys: fewer cannot fill a chunk
  using Chunk = std::unique_ptr<Packed<T>[]>;

  Stretch<T> own_front_;
  T* front_;                     // null where the system grants no addresses
  std::uint32_t front_end_ = 0;  // all smaller keys lie in front
  std::vector<Chunk> chunks_;    // null where the keys are hashed
  HashTable<T> sparse_;
  std::uint32_t settle_at_ = settle_least;

  // Null if the key is not packed.
  Packed<T>* group_of(std::uint32_t key) const {
    const std::size_t chunk = key / chunk_keys;
    if (chunk >= chunks_.size() || !chunks_[chunk]) return nullptr;
    return &chunks_[chunk][key % chunk_keys / Packed<T>::keys];
  }

  const T* find_beyond(std::uint32_t key) const {
    const Packed<T>* group = group_of(key);
    return group ? group->find(key) : sparse_.find(key);
  }

  template <class Visit>
  void each_of_chunk(std::size_t chunk, Visit visit) const {
    if (!chunks_[chunk]) return;
    auto first = static_cast<std::uint32_t>(chunk * chunk_keys);
    const std::uint32_t groups = chunk_keys / Packed<T>::keys;
    for (std::uint32_t g = 0; g < groups; ++g, first += Packed<T>::keys) {
      chunks_[chunk][g].each(first, visit);
    }
  }

  // A key that is not there.
  [[gnu::noinline]] T* add(std::uint32_t key, bool& moved) {
    if (Packed<T>* group = group_of(key)) {
      moved = true;
      return group->add(key);
    }
    if (sparse_.used() < settle_at_) return sparse_.make(key, moved);
    settle();
    moved = true;
    return make(key, moved);
  }

  // Takes the chunks that have filled up out of the hash table.
  void settle() {
    std::vector<std::uint32_t> chunks;
    chunks.reserve(sparse_.used());
    sparse_.each([&](std::uint32_t key, const T&) { chunks.push_back(key / chunk_keys); });
    std::sort(chunks.begin(), chunks.end());
    std::uint32_t left = 0;
    for (auto first = chunks.begin(); first != chunks.end();) {
      const auto last = std::upper_bound(first, chunks.end(), *first);
      const auto used = static_cast<std::uint32_t>(last - first);
      if (used < packed_at) {
        left += used;
      } else {
        if (*first >= chunks_.size()) chunks_.resize(*first + 1);
        chunks_[*first].reset(new Packed<T>[chunk_keys / Packed<T>::keys]);
      }
      first = last;
    }
    HashTable<T> rest;
    rest.reserve(left);
    std::swap(rest, sparse_);
    settle_at_ = std::max(settle_least, 2 * left);
    bool moved = false;
    rest.each([&](std::uint32_t key, const T& value) { *make(key, moved) = value; });
  }
};

}  // namespace pqr
