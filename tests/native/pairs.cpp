// The table of pairs against std::map, for the address sanitizer: blocks of rows turn from hash
// tables into arrays, and pointers are aligned and hold for as long as they should. test_table.py
// builds and runs it; a number as its argument divides how many rows there are, and leaves out
// models of many ranks.
//
// Exit codes: 0 done, otherwise the number of the check that failed.
//
// With refuse.hpp the system grants none that have no memory yet: all pairs stay hashed.

#include "pairs.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "value.hpp"

namespace {

#ifdef REFUSES_ADDRESSES
constexpr bool refuses = true;
#else
constexpr bool refuses = false;
#endif

using Key = std::pair<std::uint32_t, std::uint32_t>;  // j, i: the order in which pairs are sorted

template <class T>
class Both {
 public:
  Both(std::size_t order, std::size_t most, pqr::DenseRanks dense)
      : dense_(dense), table_(most, before, dense) {
    table_.resize(order);
  }

  // All pairs of some ranks, also with themselves: makes them, and writes through the pointers.
  void learn(std::vector<std::uint32_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    std::vector<Key> keys;
    for (const std::uint32_t j : ranks) {
      for (const std::uint32_t i : ranks) {
        if (i <= j) keys.emplace_back(j, i);
      }
      if (const T* span = table_.span(j)) spans_[j] = span;
      if (table_.has_all(j)) {
        require(10, table_.span(j) == table_.array() + table_.first() + pqr::span_start(j));
      }
    }
    std::vector<T*> places(keys.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t n = 0; n < keys.size(); ++n) {
        table_.prefetch(keys[n].second, keys[n].first);
        places[n] = table_.make(keys[n].second, keys[n].first, moved);
      }
    }
    for (std::size_t n = 0; n < keys.size(); ++n) {
      T& expected = map_[keys[n]];
      require_aligned(places[n]);
      require(1, *places[n] == expected);
      expected.write(written_);
      *places[n] = expected;
    }
  }

  void grow(std::size_t order) { table_.resize(order); }

  void check() const {
    for (const auto& [j, span] : spans_) require(2, table_.span(j) == span);
    check_in(table_);
  }

  // As a model is saved and loaded.
  void check_copy() const {
    pqr::PairTable<T> copy(table_.order(), 0, dense_);
    copy.resize(table_.order());
    bool moved = false;
    for (std::uint32_t j = 0; j < table_.order(); ++j) {
      if (const T* own = table_.find(j, j)) *copy.make(j, j, moved) = *own;
      table_.each_of_span(j, [&](std::uint32_t i, const T& value) {
        if (!(value == T{})) *copy.make(i, j, moved) = value;
      });
    }
    check_in(copy);
  }

  bool is_array(std::uint32_t j) const { return table_.span(j) != nullptr; }

 private:
  static constexpr std::uint32_t before = 72;

  pqr::DenseRanks dense_;
  pqr::PairTable<T> table_;
  std::map<Key, T> map_;
  std::map<std::uint32_t, const T*> spans_;  // in the array, which must not move
  std::uint32_t written_ = 0;

  void check_in(const pqr::PairTable<T>& table) const {
    std::uint64_t sum = 0, expected = 0;
    for (const auto& [key, value] : map_) {
      const T* found = table.find(key.second, key.first);
      require_aligned(found);
      require(3, found && *found == value);
      expected += value.words[0];
    }
    table.each_run([&](const T* values, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i) sum += values[i].words[0];
    });
    require(4, sum == expected);
    auto next = map_.begin();
    for (std::uint32_t j = 0; j < table.order(); ++j) {
      table.each_of_span(j, [&](std::uint32_t i, const T& value) {
        require_aligned(&value);
        if (value == T{}) return;
        require(5, next != map_.end() && next->first == Key(j, i) && next->second == value);
        ++next;
      });
      if (next != map_.end() && next->first == Key(j, j)) ++next;  // not one of those, and the last
    }
    require(6, next == map_.end());
  }
};

// Rows of seven ranks: five of `near_range` from `near_first` on, two anywhere.
struct Shape {
  std::size_t order;
  std::uint32_t near_first, near_range, rows;
  bool becomes_array;
};

std::mt19937 source(7);
std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(source()) % end; }

template <class T>
void run(const Shape& shape, pqr::DenseRanks dense, std::uint32_t share) {
  Both<T> both(shape.order, shape.order, dense);
  const auto learn_some = [&] {
    std::vector<std::uint32_t> ranks;
    for (int n = 0; n < 5; ++n) ranks.push_back(shape.near_first + below(shape.near_range));
    for (int n = 0; n < 2; ++n) ranks.push_back(below(static_cast<std::uint32_t>(shape.order)));
    both.learn(std::move(ranks));
  };
  for (std::uint32_t r = 0; r < shape.rows / share; ++r) {
    learn_some();
    if (r == 0) require(11, dense.at_once > 0 || !both.is_array(shape.near_first));
    if ((r & (r - 1)) == 0) both.check();
  }
  // With a share of the rows a block may need more of them.
  const bool becomes_array = shape.becomes_array && !refuses;
  for (int r = 0; becomes_array && !both.is_array(shape.near_first) && r < 60'000; ++r) {
    learn_some();
  }
  both.check();
  if (shape.order <= 4096) both.check_copy();
  require(7, both.is_array(shape.near_first) == becomes_array);
}

// Slots of eight bytes, as a model of ranks by frequency has them.
void run_frequent() {
  const Shape shapes[] = {
      {40, 0, 40, 300, true},              // one block, and not all of it
      {4096, 3900, 196, 2'000, true},      // the last of those that are arrays at once
      {8000, 4096, 512, 6'000, true},      // few are hashed, then arrays
      {9000, 8000, 400, 8'000, true},      // across the border of some and many
      {20'000, 19'000, 600, 3'000, false}  // always hashed
  };
  for (const Shape& shape : shapes) run<Value<2, 8>>(shape, pqr::frequent_ranks, 1);
}

// Larger slots of fewer ranks: as much memory.
template <class T>
void run_large(std::uint32_t share) {
  const Shape shapes[] = {
      {512, 400, 112, 1'000, true},      // the last of those that are arrays at once
      {1000, 512, 256, 2'000, true},     // few are hashed, then arrays
      {3000, 2600, 300, 1'000, false}};  // always hashed
  for (const Shape& shape : shapes) run<T>(shape, {512, 1024}, share);
}

// Ranks of which nothing is known: each block starts hashed, also the first one.
template <class T>
void run_unknown(std::uint32_t share) {
  const Shape shapes[] = {
      {40, 0, 40, 300, false},       // too few pairs
      {600, 0, 256, 1'500, true},    // the first block
      {1100, 512, 200, 1'500, true}  // one behind others, which stay hashed
  };
  for (const Shape& shape : shapes) run<T>(shape, {0, 0}, share);
}

// Ranks that are appended one by one, and a block that is not complete when it becomes an array.
template <class T>
void run_grown(pqr::DenseRanks dense) {
  Both<T> grown(1, pqr::PairTable<T>::most, dense);
  for (std::uint32_t order = 2; order < 700; ++order) {
    grown.grow(order);
    std::vector<std::uint32_t> ranks = {order - 1, 0};
    for (int n = 0; n < 4; ++n) ranks.push_back(below(order));
    grown.learn(std::move(ranks));
  }
  grown.check();
  grown.check_copy();
}

}  // namespace

int main(int count, char** arguments) {
  const auto share = static_cast<std::uint32_t>(count > 1 ? std::atoi(arguments[1]) : 1);
  if (share == 1) run_frequent();
  run_large<Half>(share);
  run_large<Line>(share);
  run_unknown<Value<2, 8>>(share);
  run_unknown<Line>(share);
  for (const pqr::DenseRanks dense : {pqr::frequent_ranks, pqr::DenseRanks{0, 0}}) {
    run_grown<Value<2, 8>>(dense);
    run_grown<Line>(dense);
  }
  return failed;
}
