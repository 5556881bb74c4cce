// Values by feature. Exact, never hashed together: a key that was made has a
// value of its own, one that was not costs nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hash.hpp"
#include "memory.hpp"
#include "packed.hpp"

namespace pqr {

// Values by feature, in chunks. Where features come thick, a chunk is a plain array;
// where they come thinner, its values are packed; the rest stay in a hash table. So
// memory follows what was seen: a single row with index 2^32-1 costs one entry, and
// dense numbering costs one load. The arrays of the first chunks lie side by side: as long as none
// of them is missing, where a value is can be computed. T{} is all zeros.
template <class T>
class Table {
  static constexpr std::size_t array_bytes = chunk_size * sizeof(T);

 public:
  // A chunk turns into an array once `array_at` of its features have been made, and
  // sooner while there are fewer than `few_arrays`: at most 32 MB of them.
  static constexpr std::uint32_t few_by_default =
      std::min<std::size_t>(512, (std::size_t{32} << 20) / array_bytes);
  explicit Table(std::uint32_t array_at = chunk_size / 4 * 3,
                 std::uint32_t few_arrays = few_by_default)
      : array_at_(array_at), few_arrays_(few_arrays) {}

  const T* find(std::uint32_t key) const {
    const Place place = place_of(key);
    return place.array ? place.array + (key & chunk_mask) : find_other(place, key);
  }

  // Finds or makes. `moved` turns true when pointers handed out before are void. Those to larger
  // keys may be void without it: whoever keeps several asks in order of key.
  T* make(std::uint32_t key, bool& moved) {
    const Place place = place_of(key);
    if (place.array) return place.array + (key & chunk_mask);
    T* found = const_cast<T*>(find_other(place, key));
    return found ? found : add(key, moved);
  }

  // The array of the first keys has room for so many, up to 64 MB, and lies in somebody else's
  // memory if that is there and starts a large page; nothing may have been made.
  static constexpr std::uint32_t front_keys =
      std::min<std::size_t>(1u << 22, (std::size_t{64} << 20) / array_bytes * chunk_size);
  void lie_in(T* memory) { front_ = memory; }
  bool is_new() const { return places_.empty() && sparse_.used() == 0; }

  // The array of the first keys, if all of these lie there: they never move. Keys rise.
  T* front(const std::uint32_t* keys, std::size_t size) const {
    return size == 0 || keys[size - 1] < in_front_ ? front_ : nullptr;
  }

  enum class Where { arrays, packed, other };

  // Asks for the values of many keys, which rise. Says where all of them are, or the worst of
  // them: of those that are packed it could only ask for the group that says where they are.
  Where prefetch(const std::uint32_t* keys, std::size_t size) const {
    if (const T* const first = front(keys, size)) {
      for (std::size_t i = 0; i < size; ++i) fetch_value(first + keys[i]);
      return Where::arrays;
    }
    const Place* const places = places_.data();
    const std::size_t chunks = places_.size();
    Where where = Where::arrays;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint32_t key = keys[i];
      const std::size_t chunk = key >> chunk_bits;
      if (chunk < chunks && places[chunk].array) {
        fetch_value(places[chunk].array + (key & chunk_mask));
      } else if (chunk < chunks && places[chunk].packed) {
        fetch(&places[chunk].packed->group(key).bits[Group::word_of(key)]);
        fetch(&places[chunk].packed->group(key).run);
        where = Where::packed;
      } else {
        sparse_.prefetch(key);
        if (where == Where::arrays) where = Where::other;
      }
    }
    return where;
  }

  // Asks for the value where `prefetch` has asked for the group.
  void prefetch_packed(std::uint32_t key) const {
    if (Chunk* packed = place_of(key).packed) Packed<T>::prefetch(packed->group(key), key);
  }

  // Makes arrays of all chunks up to that of this key, if it is one of the first. Voids pointers to
  // values outside of arrays.
  void cover(std::uint32_t key) {
    if (key < in_front_ || key >= front_chunks * chunk_size) return;
    const std::uint32_t last = key >> chunk_bits;
    if (last >= places_.size()) places_.resize(last + 1);
    for (std::uint32_t chunk = in_front_ >> chunk_bits; chunk <= last; ++chunk) {
      if (!places_[chunk].array) make_array(chunk);
    }
    unhash();
    extend_front();
  }

  // In no order.
  template <class Visit>
  void each(Visit visit) const {
    each_run([&](std::uint32_t, T* values, std::size_t size) {
      std::for_each(values, values + size, visit);
    });
  }

  // Those of keys that follow each other at a time, where they lie side by side.
  template <class Visit>
  void each_run(Visit visit) const {
    const auto one = [&](std::uint32_t key, T& value) { visit(key, &value, std::size_t{1}); };
    for (std::size_t c = 0; c < places_.size(); ++c) {
      const auto first = static_cast<std::uint32_t>(c << chunk_bits);
      if (places_[c].array) {
        visit(first, places_[c].array, std::size_t{chunk_size});
      } else {
        each_of(places_[c], [&](std::uint32_t i, T& value) { one(first + i, value); });
      }
    }
    sparse_.each(one);
    one(HashTable<T>::none, last_);
  }

  // In order of key.
  template <class Visit>
  void each_sorted(Visit visit) const {
    std::vector<std::pair<std::uint32_t, const T*>> sparse;
    sparse_.each([&](std::uint32_t key, const T& value) { sparse.emplace_back(key, &value); });
    std::sort(sparse.begin(), sparse.end());  // keys differ
    auto next = sparse.begin();
    for (std::size_t c = 0; c < places_.size(); ++c) {
      const auto first = static_cast<std::uint32_t>(c << chunk_bits);
      for (; next != sparse.end() && next->first < first; ++next) visit(next->first, *next->second);
      each_of(places_[c], [&](std::uint32_t i, const T& value) { visit(first + i, value); });
    }
    for (; next != sparse.end(); ++next) visit(next->first, *next->second);
    if (has_last_) visit(HashTable<T>::none, last_);
  }

 private:
  // Where the values of a chunk are; in the hash table when it has neither.
  struct Place {
    T* array = nullptr;
    Chunk* packed = nullptr;
  };
  static constexpr std::uint32_t packed_at = 64;
  static constexpr std::uint32_t array_of_few_at = 16;
  static constexpr std::uint32_t much_hashed = (1u << 18) / sizeof(T);  // a megabyte or so
  static constexpr std::uint32_t front_chunks = front_keys / chunk_size;

  Arena arena_;
  Stretch<T> own_front_;
  T* front_ = nullptr;          // where those of the first chunks lie that are arrays
  std::uint32_t in_front_ = 0;  // all smaller keys lie there
  std::vector<Place> places_;   // by chunk
  Packed<T> packed_;
  HashTable<T> sparse_;
  mutable T last_{};  // of key 2^32-1, which the hash table cannot hold
  bool has_last_ = false;
  std::uint32_t array_at_, few_arrays_;
  std::uint32_t arrays_ = 0;
  std::uint32_t settle_at_ = array_of_few_at;

  Place place_of(std::uint32_t key) const {
    const std::size_t chunk = key >> chunk_bits;
    return chunk < places_.size() ? places_[chunk] : Place{};
  }

  bool fills_array(std::uint32_t used) const {
    return used >= array_at_ || (arrays_ < few_arrays_ && used >= array_of_few_at);
  }

  const T* find_other(const Place& place, std::uint32_t key) const {
    if (place.packed) return Packed<T>::find(place.packed->group(key), key);
    if (key == HashTable<T>::none) return has_last_ ? &last_ : nullptr;
    return sparse_.find(key);
  }

  template <class Visit>
  static void each_of(const Place& place, Visit visit) {
    if (place.packed) Packed<T>::each(*place.packed, visit);
    for (std::uint32_t i = 0; place.array && i < chunk_size; ++i) visit(i, place.array[i]);
  }

  // A key that is not there.
  [[gnu::noinline]] T* add(std::uint32_t key, bool& moved) {
    if (Chunk* packed = place_of(key).packed) {
      if (!fills_array(packed->used())) return packed_.add(*packed, key, arena_, moved);
      moved = true;
      T* const array = make_array(key >> chunk_bits);
      extend_front();
      return array + (key & chunk_mask);
    }
    if (key == HashTable<T>::none) {
      has_last_ = true;
      return &last_;
    }
    if (sparse_.used() >= settle_at_) {
      const bool much = sparse_.used() >= much_hashed;
      settle();
      if (much) release_freed();
      moved = true;
      return make(key, moved);
    }
    return sparse_.make(key, moved);
  }

  // The array of a chunk, with its values but for those that are hashed.
  T* make_array(std::uint32_t chunk) {
    const bool first = chunk < front_chunks;
    if (first && !front_) {
      own_front_ = Stretch<T>(front_keys);
      front_ = own_front_.data();
    }
    T* const array = first && front_ ? front_ + chunk * chunk_size : packed_.array(arena_);
    if (Chunk* packed = places_[chunk].packed) packed_.move(packed, array);
    places_[chunk] = {array, nullptr};
    ++arrays_;
    if (first && front_) enlarge_with(chunk);
    return array;
  }

  // Memory that some chunks share becomes a large page once half of them are arrays.
  void enlarge_with(std::uint32_t chunk) {
    constexpr std::size_t pages = front_chunks * array_bytes / large_page;
    const std::size_t from = chunk * array_bytes, to = from + array_bytes;
    for (std::size_t page = from / large_page; page < pages && page * large_page < to; ++page) {
      const std::size_t first = page * large_page / array_bytes;
      const std::size_t last = ((page + 1) * large_page - 1) / array_bytes;
      std::size_t arrays = 0;
      for (std::size_t c = first; c <= last && c < places_.size(); ++c) {
        arrays += places_[c].array != nullptr;
      }
      const std::size_t half = std::max<std::size_t>(1, (last - first + 1) / 2);
      if (arrays == half) enlarge(reinterpret_cast<unsigned char*>(front_) + page * large_page);
    }
  }

  // Puts what is hashed where it belongs now. Returns how many stay.
  std::uint32_t unhash() {
    std::uint32_t left = 0;
    sparse_.each([&](std::uint32_t key, const T&) {
      const Place place = place_of(key);
      left += !place.array && !place.packed;
    });
    HashTable<T> rest;
    rest.reserve(left);
    std::swap(rest, sparse_);
    bool moved = false;
    rest.each([&](std::uint32_t key, const T& value) { *make(key, moved) = value; });
    return left;
  }

  void extend_front() {
    while (in_front_ >> chunk_bits < places_.size() && front_ &&
           places_[in_front_ >> chunk_bits].array == front_ + in_front_) {
      in_front_ += chunk_size;
    }
  }

  // Takes the chunks that have filled up out of the hash table. The last chunk stays there: the
  // value of key 2^32-1 is beside it.
  void settle() {
    std::vector<std::uint32_t> chunks;
    chunks.reserve(sparse_.used());
    sparse_.each([&](std::uint32_t key, const T&) { chunks.push_back(key >> chunk_bits); });
    std::sort(chunks.begin(), chunks.end());
    for (auto first = chunks.begin(); first != chunks.end();) {
      const auto last = std::upper_bound(first, chunks.end(), *first);
      const auto used = static_cast<std::uint32_t>(last - first);
      const bool array = fills_array(used);
      if ((used >= packed_at || array) && *first != HashTable<T>::none >> chunk_bits) {
        if (*first >= places_.size()) places_.resize(*first + 1);
        if (array) {
          make_array(*first);
        } else {
          places_[*first].packed = packed_.chunk(arena_);
        }
      }
      first = last;
    }
    settle_at_ = std::max(array_of_few_at, 2 * unhash());
    extend_front();
  }
};

}  // namespace pqr
