// The table of pairs against std::map, for the address sanitizer: blocks of rows turn from hash
// tables into arrays, and pointers hold for as long as they should; also in memory that a thread
// makes ready meanwhile. test_table.py builds and runs it.
//
// Exit codes: 0 done, otherwise the number of the check that failed.
//
// With refuse.hpp the system grants none that have no memory yet: all pairs stay hashed.

#include "pairs.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

#ifdef REFUSES_ADDRESSES
constexpr bool refuses = true;
#else
constexpr bool refuses = false;
#endif

using Key = std::pair<std::uint32_t, std::uint32_t>;  // j, i: the order in which pairs are sorted

class Both {
 public:
  explicit Both(std::size_t order, std::size_t most) : table_(most, before) {
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
      if (const std::uint64_t* row = table_.row(j)) rows_[j] = row;
      if (table_.has_all(j)) {
        require(10, table_.row(j) == table_.array() + table_.first() + pqr::row_start(j));
      }
    }
    std::vector<std::uint64_t*> places(keys.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t n = 0; n < keys.size(); ++n) {
        table_.prefetch(keys[n].second, keys[n].first);
        places[n] = table_.make(keys[n].second, keys[n].first, moved);
      }
    }
    for (std::size_t n = 0; n < keys.size(); ++n) {
      require(1, *places[n] == map_[keys[n]]);
      *places[n] = map_[keys[n]] = ++written_;
    }
  }

  void grow(std::size_t order) { table_.resize(order); }
  bool use(pqr::Stretch<std::uint64_t>& ready) { return table_.use(ready); }

  static pqr::Stretch<std::uint64_t> ready(std::size_t order) {
    return pqr::PairTable<std::uint64_t>::ready(order, before);
  }

  void check() const {
    for (const auto& [j, row] : rows_) require(2, table_.row(j) == row);
    std::uint64_t sum = 0, expected = 0;
    for (const auto& [key, value] : map_) {
      const std::uint64_t* found = table_.find(key.second, key.first);
      require(3, found && *found == value);
      expected += value;
    }
    table_.each([&](std::uint64_t value) { sum += value; });
    require(4, sum == expected);
    auto next = map_.begin();
    for (std::uint32_t j = 0; j < table_.size(); ++j) {
      table_.each_of_row(j, [&](std::uint32_t i, std::uint64_t value) {
        if (value == 0) return true;
        require(5, next != map_.end() && next->first == Key(j, i) && next->second == value);
        ++next;
        return true;
      });
      if (next != map_.end() && next->first == Key(j, j)) ++next;  // not one of those, and the last
    }
    require(6, next == map_.end());
  }

  bool is_array(std::uint32_t j) const { return table_.row(j) != nullptr; }

  static void require(int number, bool good) {
    if (!good && failed == 0) failed = number;
  }
  static inline int failed = 0;

 private:
  static constexpr std::uint32_t before = 72;

  pqr::PairTable<std::uint64_t> table_;
  std::map<Key, std::uint64_t> map_;
  std::map<std::uint32_t, const std::uint64_t*> rows_;  // in the array, which must not move
  std::uint64_t written_ = 0;
};

// Rows of seven ranks: five of `near_range` from `near_first` on, two anywhere.
struct Shape {
  std::size_t order;
  std::uint32_t near_first, near_range, rows;
};

}  // namespace

int main() {
  const Shape shapes[] = {
      {40, 0, 40, 300},             // one block, and not all of it
      {4096, 3900, 196, 2'000},     // the last of those that are arrays at once
      {8000, 4096, 512, 6'000},     // few are hashed, then arrays
      {9000, 8000, 400, 8'000},     // across the border of some and many
      {20'000, 19'000, 600, 3'000}  // always hashed
  };
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random()) % end; };
  for (const Shape& shape : shapes) {
    for (const bool made_ready : {false, true}) {
      Both both(shape.order, shape.order);
      if (made_ready) {
        auto ready = Both::ready(shape.order);
        Both::require(8, both.use(ready) == !refuses);
      }
      const auto learn_some = [&] {
        std::vector<std::uint32_t> ranks;
        for (int n = 0; n < 5; ++n) ranks.push_back(shape.near_first + below(shape.near_range));
        for (int n = 0; n < 2; ++n) ranks.push_back(below(static_cast<std::uint32_t>(shape.order)));
        both.learn(std::move(ranks));
      };
      for (std::uint32_t r = 0; r < shape.rows; ++r) {
        learn_some();
        if ((r & (r - 1)) == 0) both.check();
      }
      // A block whose memory is still being touched waits for it, but not for ever.
      const bool becomes_array = shape.near_first < 8192 && !refuses;
      for (int r = 0; becomes_array && !both.is_array(shape.near_first) && r < 60'000; ++r) {
        learn_some();
      }
      auto late = Both::ready(20'000);
      Both::require(9, !(becomes_array && both.use(late)));  // it is left alone
      both.check();
      Both::require(7, both.is_array(shape.near_first) == becomes_array);
    }
  }
  // Ranks that are appended one by one, and a block that is not complete when it becomes an array.
  Both grown(1, pqr::PairTable<std::uint64_t>::most);
  for (std::uint32_t order = 2; order < 700; ++order) {
    grown.grow(order);
    grown.learn({order - 1, below(order), below(order), 0});
  }
  grown.check();
  return Both::failed;
}
