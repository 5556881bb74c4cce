// Values by pair of ranks i <= j.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "avx2.hpp"
#include "hash.hpp"
#include "memory.hpp"

namespace pqr {

// All pairs of ranks are numbered row by row: row j has (j, j), then (0, j) to (j - 1, j), and is
// filled up to a multiple of eight, so that rows of eight ranks in turn are as long, and slots of
// eight bytes start a cache line in each. The number of (j, j), of one rank or of a vector of them.
// Always inlined: code for AVX2 passes a vector in a register, where a function for any machine
// would look for it in memory.
template <class Ranks>
PQR_ALWAYS_INLINE constexpr Ranks row_start(Ranks j) {
  const Ranks eights = j >> 3;
  return ((eights + 1) * (j - (eights << 2))) << 3;
}

// How many ranks have at most so many pairs, if their numbers are to have 32 bits.
constexpr std::uint32_t ranks_within(std::size_t pairs) {
  std::uint32_t ranks = 1u << 16;
  while (row_start<std::size_t>(ranks) > pairs) ranks -= 8;
  return ranks;
}

// Ranks whose pairs are known to be dense before they have been met: those below `at_once` are
// never hashed, and few of those below `soon` are. Where nothing is known, both are 0.
struct DenseRanks {
  std::uint32_t at_once, soon;
};

// Where ranks come by frequency, rank 0 first.
constexpr DenseRanks frequent_ranks{4096, 8192};

// Rows of ranks that are near each other form a block. While few of its pairs have been met, each
// row of a block is a hash table: memory follows what was seen. Then all of the block lies in an
// array, in which the place of a pair follows from its number, and never moves. Other values may
// lie before the pairs. T{} is all zeros.
template <class T>
class PairTable {
  static constexpr std::uint32_t block_rows = 256;

 public:
  // Ranks that the array has room for: 17 GB of addresses, of which few get memory.
  static constexpr std::uint32_t most =
      ranks_within((std::size_t{17} << 30) / sizeof(T)) / block_rows * block_rows;

  // Up to `ranks` have a place in the array, behind `before` other values.
  PairTable(std::size_t ranks, std::uint32_t before, DenseRanks dense)
      : dense_(dense), before_(before), room_(rounded(ranks)) {
    while (!(array_ = Stretch<T>(before_ + row_start(room_))).data() && room_ > 0) {
      room_ = room_ / 2 / block_rows * block_rows;
    }
  }

  std::size_t size() const { return rows_.size(); }
  void resize(std::size_t order) {
    rows_.resize(order);
    blocks_.resize((order + block_rows - 1) / block_rows);
  }

  // The bytes that the array soon takes, where there are many pairs.
  static std::size_t soon(std::size_t order, DenseRanks dense = frequent_ranks) {
    return row_start(std::min<std::size_t>(order, dense.soon)) * sizeof(T);
  }

  // The array of such a table, touched from now on if that is worth a thread.
  static Stretch<T> ready(std::size_t ranks, std::uint32_t before,
                          DenseRanks dense = frequent_ranks) {
    Stretch<T> array(before + row_start(rounded(ranks)));
    const std::size_t bytes = soon(ranks, dense);
    if (array.data() && bytes >= worth_touching) array.touch(before, before + bytes / sizeof(T));
    return array;
  }

  // Takes an array that was made ready, if nothing lies in its own. Says whether it did.
  bool use(Stretch<T>& ready) {
    if (taken_ > 0 || ready.size() < before_ + row_start(room_)) return false;
    array_ = std::move(ready);
    touched_ = dense_.soon;
    return true;
  }

  // The array, or null if there is none; the number of the first pair there; whether all pairs of
  // ranks up to this one lie there.
  T* array() const { return array_.data(); }
  std::uint32_t first() const { return before_; }
  bool has_all(std::uint32_t j) const { return j < in_array_; }

  // Row j, if it lies in the array: that of j itself, then those of smaller ranks.
  T* row(std::uint32_t j) const {
    return blocks_[j / block_rows].is_array ? pairs() + row_start<std::size_t>(j) : nullptr;
  }

  const T* find(std::uint32_t i, std::uint32_t j) const {
    const T* const values = row(j);
    return values ? values + within(i, j) : rows_[j].find(i);
  }

  // The pairs of rank j with smaller ones, of which many are sought.
  class Row {
   public:
    Row(const PairTable& table, std::uint32_t j) : values_(table.row(j)), hashed_(table.rows_[j]) {}
    const T* find(std::uint32_t i) const { return values_ ? values_ + i + 1 : hashed_.find(i); }
    void prefetch(std::uint32_t i) const {
      if (values_) {
        fetch_value(values_ + i + 1);
      } else {
        hashed_.prefetch(i);
      }
    }

   private:
    const T* values_;
    const HashTable<T>& hashed_;
  };

  // Finds or makes. `moved` turns true when pointers to values outside of the array are void.
  T* make(std::uint32_t i, std::uint32_t j, bool& moved) {
    T* const values = row(j);
    if (values) return values + within(i, j);
    T* const found = rows_[j].find(i);
    return found ? found : add(i, j, moved);
  }

  void prefetch(std::uint32_t i, std::uint32_t j) const {
    if (const T* const values = row(j)) {
      fetch_value(values + within(i, j));
    } else {
      rows_[j].prefetch(i);
    }
  }

  // In no order.
  template <class Visit>
  void each(Visit visit) const {
    each_run([&](T* values, std::size_t size) { std::for_each(values, values + size, visit); });
  }

  // Those that lie side by side at a time.
  template <class Visit>
  void each_run(Visit visit) const {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].is_array) visit(pairs() + start_of(b), start_of(b + 1) - start_of(b));
    }
    for (const HashTable<T>& row : rows_) {
      row.each([&](std::uint32_t, T& value) { visit(&value, std::size_t{1}); });
    }
  }

  // Those of pairs i < j of row j in order of i, until a visit returns false.
  template <class Visit>
  void each_of_row(std::uint32_t j, Visit visit) const {
    if (const T* const values = row(j)) {
      for (std::uint32_t i = 0; i < j && visit(i, values[within(i, j)]); ++i) {
      }
      return;
    }
    std::vector<std::pair<std::uint32_t, const T*>> sorted;
    rows_[j].each([&](std::uint32_t i, const T& value) {
      if (i != j) sorted.emplace_back(i, &value);
    });
    std::sort(sorted.begin(), sorted.end());  // ranks differ
    for (const auto& [i, value] : sorted) {
      if (!visit(i, *value)) return;
    }
  }

 private:
  // How many pairs of a block may be hashed before it becomes an array: none of ranks that are
  // dense at once, few of those that soon are if their memory is at hand, then as many as take an
  // eighth of the array's memory.
  static constexpr std::size_t one_in_some = 64, one_in_many = 16;
  static constexpr std::size_t worth_touching = std::size_t{32} << 20;

  struct Block {
    bool is_array = false;
    std::size_t hashed = 0;  // values in the tables of its rows
  };

  DenseRanks dense_;
  std::uint32_t before_;
  std::size_t room_;            // ranks that the array has room for
  std::size_t taken_ = 0;       // values of blocks that are in the array
  std::size_t touched_ = 0;     // ranks up to which somebody touches the array
  std::uint32_t in_array_ = 0;  // all smaller ranks are there
  Stretch<T> array_;
  std::vector<Block> blocks_;
  std::vector<HashTable<T>> rows_;  // empty, where the block is in the array

  T* pairs() const { return array_.data() + before_; }

  // Ranks, to whole blocks.
  static std::size_t rounded(std::size_t ranks) {
    return (std::min<std::size_t>(ranks, most) + block_rows - 1) / block_rows * block_rows;
  }
  static std::size_t start_of(std::size_t block) { return row_start(block * block_rows); }
  static std::uint32_t within(std::uint32_t i, std::uint32_t j) { return i == j ? 0 : i + 1; }

  std::size_t may_hash(std::uint32_t block) const {
    const std::uint32_t j = block * block_rows;
    if (j < dense_.at_once) return 0;
    const bool soon = j < dense_.soon && !array_.is_being_touched(before_ + start_of(block + 1));
    return (start_of(block + 1) - start_of(block)) / (soon ? one_in_some : one_in_many);
  }

  // A pair that is not there.
  [[gnu::noinline]] T* add(std::uint32_t i, std::uint32_t j, bool& moved) {
    const std::uint32_t block = j / block_rows;
    if (blocks_[block].hashed < may_hash(block) || !take(block)) {
      ++blocks_[block].hashed;
      return rows_[j].make(i, moved);
    }
    moved = true;
    return row(j) + within(i, j);
  }

  // Puts a block into the array. False if there is no room for it.
  bool take(std::uint32_t block) {
    if ((block + 1) * block_rows > room_) return false;
    touch_soon(block);
    const auto is_array = [&](std::size_t b) { return b < blocks_.size() && blocks_[b].is_array; };
    const std::size_t from = (before_ + start_of(block)) * sizeof(T);
    const std::size_t to = (before_ + start_of(block + 1)) * sizeof(T);
    // A page that is shared with a neighbour is large if both are in the array.
    array_.prefer_large(block > 0 && is_array(block - 1) ? from / large_page * large_page : from,
                        is_array(block + 1) ? to + large_page - 1 : to);
    blocks_[block].is_array = true;
    const auto last =
        static_cast<std::uint32_t>(std::min<std::size_t>((block + 1) * block_rows, size()));
    for (std::uint32_t j = block * block_rows; j < last; ++j) {
      T* const values = row(j);
      rows_[j].each([&](std::uint32_t i, const T& value) { values[within(i, j)] = value; });
      rows_[j] = HashTable<T>();
    }
    while (is_array(in_array_ / block_rows)) in_array_ += block_rows;
    return true;
  }

  // Once much has been taken, what is soon taken as well is touched before: first ranks that are
  // dense at once, then those that soon are.
  void touch_soon(std::uint32_t block) {
    taken_ += start_of(block + 1) - start_of(block);
    const std::uint32_t tier = block * block_rows < dense_.at_once ? dense_.at_once : dense_.soon;
    const std::size_t last = std::min<std::size_t>(room_, tier);
    if (last <= touched_ || taken_ * sizeof(T) < worth_touching) return;
    array_.touch(before_ + row_start(touched_), before_ + row_start(last));
    touched_ = last;
  }
};

}  // namespace pqr
