// Values by pair of ranks i < j.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hash.hpp"
#include "memory.hpp"

namespace pqr {

// Row j of the triangle holds the pairs of the feature of rank j with more frequent ones. Rows of
// ranks that are near each other form a block. While few of its pairs have been met, each row of a
// block is a hash table: memory follows what was seen. Then all of the block is one array, in which
// the place of a pair is known without looking, and never moves.
template <class T>
class PairTable {
 public:
  std::size_t size() const { return rows_.size(); }
  void resize(std::size_t order) {
    rows_.resize(order);
    blocks_.resize((order + block_rows - 1) / block_rows);
    arena_.expect(soon(order));
  }

  // The bytes that arrays soon take, where there are many pairs.
  static std::size_t soon(std::size_t order) {
    return triangle(std::min<std::size_t>(order, some_ranks)) * sizeof(T);
  }

  // Takes memory that was made ready, if it has none yet.
  void use(Arena& ready) {
    if (arena_.is_new()) arena_ = std::move(ready);
  }

  // Row j as an array indexed by i; null while it is none.
  T* array(std::uint32_t j) const {
    const Block& block = blocks_[j / block_rows];
    return block.first ? block.row(j) : nullptr;
  }

  const T* find(std::uint32_t i, std::uint32_t j) const {
    const T* row = array(j);
    return row ? row + i : rows_[j].find(i);
  }

  // Finds or makes. `moved` turns true when pointers to values outside of arrays are void.
  T* make(std::uint32_t i, std::uint32_t j, bool& moved) {
    T* const row = array(j);
    if (row) return row + i;
    T* const found = rows_[j].find(i);
    return found ? found : add(i, j, moved);
  }

  // Asks for a value that is not in an array.
  void prefetch(std::uint32_t i, std::uint32_t j) const { rows_[j].prefetch(i); }

  // In no order.
  template <class Visit>
  void each(Visit visit) const {
    each_run([&](T* values, std::size_t size) { std::for_each(values, values + size, visit); });
  }

  // Those that lie side by side at a time.
  template <class Visit>
  void each_run(Visit visit) const {
    for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].first) visit(blocks_[b].first, size_of(b));
    }
    for (const HashTable<T>& row : rows_) {
      row.each([&](std::uint32_t, T& value) { visit(&value, std::size_t{1}); });
    }
  }

  // Those of row j in order of i, until a visit returns false.
  template <class Visit>
  void each_of_row(std::uint32_t j, Visit visit) const {
    if (const T* const values = array(j)) {
      for (std::uint32_t i = 0; i < j && visit(i, values[i]); ++i) {
      }
      return;
    }
    std::vector<std::pair<std::uint32_t, T>> sorted;
    rows_[j].each([&](std::uint32_t i, const T& value) { sorted.emplace_back(i, value); });
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [i, value] : sorted) {
      if (!visit(i, value)) return;
    }
  }

 private:
  static constexpr std::uint32_t block_rows = 256;
  // How many pairs of a block may be hashed before it becomes an array: none of the most frequent
  // ranks, few of those that come next if their memory is at hand, then as many as take an eighth
  // of the array's memory.
  static constexpr std::uint32_t few_ranks = 4096, some_ranks = 2 * few_ranks;
  static constexpr std::size_t one_in_some = 64, one_in_many = 16;

  struct Block {
    T* first = nullptr;         // the array, once it is one
    std::uintptr_t origin = 0;  // where it would start, if all rows before it were in it
    std::size_t hashed = 0;     // values in the tables of its rows

    T* row(std::uint32_t j) const { return reinterpret_cast<T*>(origin + triangle(j) * sizeof(T)); }
  };

  Arena arena_;
  std::vector<Block> blocks_;
  std::vector<HashTable<T>> rows_;  // empty, where the block is an array

  static std::size_t triangle(std::size_t side) { return side * (side - 1) / 2; }
  static std::size_t size_of(std::size_t block) {
    return triangle((block + 1) * block_rows) - triangle(block * block_rows);
  }

  std::size_t may_hash(std::uint32_t block) const {
    const std::uint32_t j = block * block_rows;
    if (j < few_ranks) return 0;
    const std::size_t size = size_of(block);
    const bool soon = j < some_ranks && !arena_.template is_being_touched<T>(size);
    return size / (soon ? one_in_some : one_in_many);
  }

  // A pair that is not there.
  [[gnu::noinline]] T* add(std::uint32_t i, std::uint32_t j, bool& moved) {
    const std::uint32_t block = j / block_rows;
    if (blocks_[block].hashed < may_hash(block)) {
      ++blocks_[block].hashed;
      return rows_[j].make(i, moved);
    }
    make_array(block);
    moved = true;
    return array(j) + i;
  }

  void make_array(std::uint32_t block) {
    const std::uint32_t first = block * block_rows;
    T* const all = arena_.take<T>(size_of(block));
    blocks_[block].first = all;
    blocks_[block].origin = reinterpret_cast<std::uintptr_t>(all) - triangle(first) * sizeof(T);
    const auto last = static_cast<std::uint32_t>(std::min<std::size_t>(first + block_rows, size()));
    for (std::uint32_t j = first; j < last; ++j) {
      T* const values = array(j);
      rows_[j].each([&](std::uint32_t i, const T& value) { values[i] = value; });
      rows_[j] = HashTable<T>();
    }
  }
};

}  // namespace pqr
