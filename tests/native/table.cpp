// Tables by feature against std::map, for the address sanitizer: whatever keys come, each has a
// value of its own, aligned, and pointers hold for as long as they should. test_table.py builds and
// runs it; a number as its argument divides how many rows there are.
//
// Exit codes: 0 done, otherwise the number of the check that failed.
//
// With refuse.hpp the system grants none that have no memory yet.

#include "table.hpp"

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

constexpr std::uint32_t last = 0xFFFFFFFFu;

template <class T>
class Pair {
 public:
  Pair() = default;
  // Its first keys lie in memory that it has for them.
  explicit Pair(pqr::Stretch<T> memory) : memory_(std::move(memory)), table_(memory_.data()) {}

  // A row of rising keys: makes them all, and writes through the pointers.
  void learn(std::vector<std::uint32_t> keys) {
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    if (T* const first = table_.front(keys.data(), keys.size())) {
      require(9, !refuses);
      for (const std::uint32_t key : keys) settled_[key] = first + key;
    }
    table_.prefetch(keys.data(), keys.size());
    table_.prefetch_packed(keys.data(), keys.size());
    std::vector<T*> places(keys.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        places[i] = table_.make(keys[i], moved);
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      T& expected = map_[keys[i]];
      require_aligned(places[i]);
      require(1, *places[i] == expected);
      expected.write(written_);
      *places[i] = expected;
    }
  }

  void check() const {
    for (const auto& [key, place] : settled_) require(8, table_.find(key) == place);
    check_in(table_);
  }

  // As a model is saved and loaded.
  void check_copy() const {
    pqr::Table<T> copy;
    bool moved = false;
    table_.each_sorted([&](std::uint32_t key, const T& value) {
      if (!(value == T{})) *copy.make(key, moved) = value;
    });
    check_in(copy);
  }

 private:
  pqr::Stretch<T> memory_;
  pqr::Table<T> table_;
  std::map<std::uint32_t, T> map_;
  std::map<std::uint32_t, T*> settled_;  // places that must not move
  std::uint32_t written_ = 0;

  void check_in(const pqr::Table<T>& table) const {
    for (const auto& [key, value] : map_) {
      const T* found = table.find(key);
      require_aligned(found);
      require(2, found != nullptr && *found == value);
      for (const std::uint32_t near : {key - 1, key + 1, key ^ 64, key ^ 4096}) {
        const T* other = table.find(near);
        require(3, map_.count(near) > 0 || other == nullptr || *other == T{});
      }
    }
    auto next = map_.begin();
    std::int64_t before = -1;
    table.each_sorted([&](std::uint32_t key, const T& value) {
      require_aligned(&value);
      require(4, before < std::int64_t{key});
      before = key;
      if (value == T{}) return;
      require(5, next != map_.end() && next->first == key && next->second == value);
      ++next;
    });
    require(6, next == map_.end());
  }
};

// Keys of a row: up to `most` of them, each `first` plus less than `range`.
struct Shape {
  std::uint32_t first, range, rows, most;
};

template <class T>
void run(std::uint32_t share) {
  const std::uint32_t end = pqr::Table<T>::front_keys;
  const Shape shapes[] = {
      {0, 10'000, 3'000, 20},            // until nearly all occur
      {end, 10'000, 3'000, 20},          // the same, but packed
      {end - 94'000, 200'000, 500, 9},   // to the end of the front and beyond
      {0, last, 1'000, 10},              // far apart
      {5'000'000, 100'000, 5'000, 12},   // in between
      {last - 5'000, 5'001, 2'000, 12},  // at the end, with 2^32-1
      {4096 * 1000 - 70, 140, 200, 5},   // across the border of two chunks
      {1u << 31, 4096, 1'000, 6},        // one chunk alone
  };
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random()) % end; };
  Pair<T> mixed;
  mixed.learn({last});  // before its chunk fills up
  Pair<T> lent((pqr::Stretch<T>(end)));
  for (const Shape& shape : shapes) {
    Pair<T> alone;
    for (std::uint32_t r = 0; r < shape.rows / share; ++r) {
      std::vector<std::uint32_t> keys(below(shape.most) + 1);
      for (std::uint32_t& key : keys) key = shape.first + below(shape.range);
      alone.learn(keys);
      mixed.learn(keys);
      lent.learn(std::move(keys));
      if ((r & (r - 1)) == 0) alone.check();
    }
    alone.check();
    alone.check_copy();
    mixed.check();
  }
  mixed.check_copy();
  lent.check();
  // In order, as a model is loaded.
  Pair<T> rising;
  for (std::uint32_t key = 0; key < 40'000; key += 1 + below(1 + key / 4096)) {
    rising.learn({key});
  }
  rising.learn({last});
  rising.check();
}

}  // namespace

int main(int count, char** arguments) {
  const auto share = static_cast<std::uint32_t>(count > 1 ? std::atoi(arguments[1]) : 1);
  run<Value<1>>(share);
  run<Value<2>>(share);
  run<Value<3>>(share);
  run<Value<4>>(share);
  return failed;
}
