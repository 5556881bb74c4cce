// Values by pair of ranks i <= j.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hash.hpp"
#include "lanes.hpp"
#include "pages.hpp"
#include "prefetch.hpp"

namespace pqr {

// The pairs of rank j form span j: (j, j), then (0, j) to (j - 1, j). All pairs are numbered span
// by span. Spans are padded to a multiple of eight, so that those of eight ranks in turn are as
// long, and slots of eight bytes start a cache line in each. This is the number of (j, j), for one
// rank or a vector of them. Always inlined: code for AVX2 passes a vector in a register, where a
// function for any machine would look for it in memory.
template <class Ranks>
PQR_ALWAYS_INLINE constexpr Ranks span_start(Ranks j) {
  const Ranks eights = j >> 3;
  return ((eights + 1) * (j - (eights << 2))) << 3;
}

// How many ranks have at most so many pairs, whose numbers have 32 bits.
constexpr std::uint32_t ranks_within(std::size_t pairs) {
  std::uint32_t ranks = 1u << 16;  // about 2^31 pairs
  while (span_start<std::size_t>(ranks) > pairs) ranks -= 8;
  return ranks;
}

// Ranks whose pairs are known to be dense before they have been met: those below `at_once` are
// never hashed, and few of those below `soon` are. Where nothing is known, both are 0.
struct DenseRanks {
  std::uint32_t at_once, soon;
};

// Where rank 0 is the most frequent: arrays of 67 MB at once, of 268 MB soon (decision 5).
constexpr DenseRanks frequent_ranks{4096, 8192};

// Spans of 256 ranks form a band. While few of its pairs have been met, each span of a band is a
// hash table: memory follows what was seen. Then the whole band lies in an array, in which a pair
// is found by its number, and never moves. Other values may lie before the pairs.
// T{} is all zeros.
template <class T>
class PairTable {
  static constexpr std::uint32_t band_ranks = 256;  // larger bands hold more unused pairs

 public:
  // Ranks in the array: 17 GB of addresses, of which few get memory; 65,536 for slots of 8 bytes.
  static constexpr std::uint32_t most =
      ranks_within((std::size_t{17} << 30) / sizeof(T)) / band_ranks * band_ranks;

  // Up to `ranks` fit into the array, behind `before` other values.
  PairTable(std::size_t ranks, std::uint32_t before, DenseRanks dense)
      : dense_(dense), before_(before), array_ranks_(whole_bands(ranks)) {
    while (!(array_ = Stretch<T>(before_ + span_start(array_ranks_))).data() && array_ranks_ > 0) {
      array_ranks_ = array_ranks_ / 2 / band_ranks * band_ranks;
    }
  }

  std::size_t order() const { return spans_.size(); }
  void resize(std::size_t order) {
    spans_.resize(order);
    bands_.resize((order + band_ranks - 1) / band_ranks);
  }

  // The array, or null if there is none; the number of the first pair there; whether all pairs of
  // ranks up to this one lie there.
  T* array() const { return array_.data(); }
  std::uint32_t first() const { return before_; }
  bool has_all(std::uint32_t j) const { return j < dense_end_; }

  // Span j if it lies in the array, else null.
  T* span(std::uint32_t j) const {
    return bands_[j / band_ranks].is_array ? pairs() + span_start<std::size_t>(j) : nullptr;
  }

  const T* find(std::uint32_t i, std::uint32_t j) const {
    const T* const values = span(j);
    return values ? values + within(i, j) : spans_[j].find(i);
  }

  // Finds or makes. `moved` turns true when pointers to values outside of the array are void.
  T* make(std::uint32_t i, std::uint32_t j, bool& moved) {
    T* const values = span(j);
    if (values) return values + within(i, j);
    T* const found = spans_[j].find(i);
    return found ? found : add(i, j, moved);
  }
  T* make(std::uint32_t i, std::uint32_t j) {
    bool moved = false;
    return make(i, j, moved);
  }

  void prefetch(std::uint32_t i, std::uint32_t j) const {
    if (const T* const values = span(j)) {
      fetch_value(values + within(i, j));
    } else {
      spans_[j].prefetch(i);
    }
  }

  // Calls visit(values, count) for values that lie side by side, in no order.
  template <class Visit>
  void each_run(Visit visit) const {
    for (std::size_t b = 0; b < bands_.size(); ++b) {
      if (bands_[b].is_array) visit(pairs() + start_of(b), start_of(b + 1) - start_of(b));
    }
    for (const HashTable<T>& span : spans_) {
      span.each([&](std::uint32_t, T& value) { visit(&value, std::size_t{1}); });
    }
  }

  // Calls visit(i, value) for pairs i < j of span j in order of i.
  template <class Visit>
  void each_of_span(std::uint32_t j, Visit visit) const {
    if (const T* const values = span(j)) {
      for (std::uint32_t i = 0; i < j; ++i) visit(i, values[within(i, j)]);
      return;
    }
    std::vector<std::pair<std::uint32_t, const T*>> sorted;
    spans_[j].each([&](std::uint32_t i, const T& value) {
      if (i != j) sorted.emplace_back(i, &value);
    });
    std::sort(sorted.begin(), sorted.end());  // ranks differ
    for (const auto& [i, value] : sorted) visit(i, *value);
  }

 private:
  struct Band {
    bool is_array = false;
    std::size_t hashed = 0;  // values in the tables of its spans
  };

  DenseRanks dense_;
  std::uint32_t before_;
  std::size_t array_ranks_;      // how many fit into the array
  std::uint32_t dense_end_ = 0;  // all smaller ranks lie in the array
  Stretch<T> array_;
  std::vector<Band> bands_;
  std::vector<HashTable<T>> spans_;  // empty, where the band is an array

  T* pairs() const { return array_.data() + before_; }

  static std::size_t whole_bands(std::size_t ranks) {
    return (std::min<std::size_t>(ranks, most) + band_ranks - 1) / band_ranks * band_ranks;
  }
  static std::size_t start_of(std::size_t band) { return span_start(band * band_ranks); }
  static std::uint32_t within(std::uint32_t i, std::uint32_t j) { return i == j ? 0 : i + 1; }
  bool is_array(std::size_t band) const { return band < bands_.size() && bands_[band].is_array; }

  // How many pairs of a band may be hashed before it becomes an array: none of ranks that are dense
  // at once, a 64th of those that soon are, then a 16th. Measured (decision 5).
  std::size_t may_hash(std::uint32_t band) const {
    const std::uint32_t j = band * band_ranks;
    if (j < dense_.at_once) return 0;
    return (start_of(band + 1) - start_of(band)) / (j < dense_.soon ? 64 : 16);
  }

  // A pair that is not there.
  [[gnu::noinline]] T* add(std::uint32_t i, std::uint32_t j, bool& moved) {
    const std::uint32_t band = j / band_ranks;
    if (bands_[band].hashed < may_hash(band) || (band + 1) * band_ranks > array_ranks_) {
      ++bands_[band].hashed;
      return spans_[j].make(i, moved);
    }
    move_to_array(band);
    moved = true;
    return span(j) + within(i, j);
  }

  void move_to_array(std::uint32_t band) {
    bands_[band].is_array = true;
    // A page that is shared with a neighbour is large if both are arrays.
    const std::size_t first = band > 0 && is_array(band - 1) ? band - 1 : band;
    const std::size_t last = is_array(band + 1) ? band + 2 : band + 1;
    array_.prefer_large(before_ + start_of(first), before_ + start_of(last));
    const std::size_t end = std::min<std::size_t>((band + 1) * band_ranks, order());
    for (std::uint32_t j = band * band_ranks; j < end; ++j) {
      T* const values = span(j);
      spans_[j].each([&](std::uint32_t i, const T& value) { values[within(i, j)] = value; });
      spans_[j] = HashTable<T>();
    }
    while (is_array(dense_end_ / band_ranks)) dense_end_ += band_ranks;
  }
};

}  // namespace pqr
