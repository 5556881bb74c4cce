// Row: one example, as a view. RowBuffer: the one owner of rows, and the one
// place where a row is put in canonical form: indices strictly rising, repeats
// summed, zeros left out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "lanes.hpp"
#include "prefetch.hpp"

namespace pqr {

struct Row {
  const std::uint32_t* indices;
  const float* values;
  std::size_t size;
};

// A row's features by separation: high ones in order of rank, and the sum of low ones.
struct Split {
  const std::uint32_t* ranks = nullptr;  // of the high features, rising
  const float* values = nullptr;         // of the high features
  std::size_t high = 0;                  // how many there are
  float low_sum = 0;
  std::size_t left_out = 0;  // features without a rank, where nothing is low
};

// A view of many canonical rows. Rows without labels can only be predicted.
struct Rows {
  const std::int64_t* indptr;
  const std::uint32_t* indices;
  const float* values;
  const double* labels;
  const float* weights;
  std::size_t size;
  const Split* splits = nullptr;  // of rows that were split in advance

  Row operator[](std::size_t r) const {
    return {indices + indptr[r], values + indptr[r],
            static_cast<std::size_t>(indptr[r + 1] - indptr[r])};
  }

  // Prefetches row r itself: another core may just have written it.
  void prefetch(std::size_t r) const {
    if (r >= size) return;
    const Row row = (*this)[r];
    fetch_ends(row.indices, row.size);
    fetch_ends(row.values, row.size);
    if (labels) fetch(labels + r);
    if (weights) fetch(weights + r);
    if (!splits) return;
    fetch_ends(splits[r].ranks, splits[r].high);
    fetch_ends(splits[r].values, splits[r].high);
  }

  Rows range(std::size_t first, std::size_t rows) const {
    return {indptr + first,
            indices,
            values,
            labels ? labels + first : nullptr,
            weights ? weights + first : nullptr,
            rows,
            splits ? splits + first : nullptr};
  }
};

// A canonical row can be learned as it is. Neighbours are compared four at a time, some of the last
// ones twice: rows are too short for loops that leave a remainder.
inline bool is_canonical(const std::uint32_t* indices, const float* values, std::size_t size) {
  constexpr std::size_t four = 4;
  using Indices = Vector<std::uint32_t, four>;
  using Values = Vector<float, four>;
  if (size <= four) {
    bool good = size == 0 || values[0] != 0.0f;
    for (std::size_t i = 1; i < size; ++i) {
      good &= (indices[i] > indices[i - 1]) & (values[i] != 0.0f);
    }
    return good;
  }
  auto bad = Values{values[0], 1.0f, 1.0f, 1.0f} == 0.0f;
  for (std::size_t i = 1; i < size; i += four) {
    const std::size_t first = std::min(i, size - four);
    const auto before = read_as<Indices>(indices + first - 1);
    bad |=
        (read_as<Indices>(indices + first) <= before) | (read_as<Values>(values + first) == 0.0f);
  }
  return (bad[0] | bad[1] | bad[2] | bad[3]) == 0;
}

inline bool is_good(const Row& row) {
  constexpr float largest = std::numeric_limits<float>::max();
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < row.size; ++i) {
    bad |= std::uint32_t{!(std::fabs(row.values[i]) <= largest)};
  }
  return bad == 0 && is_canonical(row.indices, row.values, row.size);
}

inline bool is_weight(float weight) { return weight >= 0.0f && std::isfinite(weight); }

// Sorting few keys without branches: comparisons would be mispredicted.
constexpr std::size_t few_keys = 64;   // beyond, comparing all with all takes longer
constexpr std::size_t more_keys = 16;  // padding of arrays: keys are taken by sixteens

// How many of up to `few_keys` keys are smaller than each, which is its place in order when all
// differ. Returns whether they do. `width` is how many keys the machine compares at a time: without
// such vectors, GCC would compare one key after the other.
template <std::size_t width = 4>
PQR_ALWAYS_INLINE inline bool places_in_order(const std::uint32_t* keys, std::size_t size,
                                              std::uint32_t* places) {
  using Some = Vector<std::int32_t, width>;
  constexpr std::int32_t flipped = INT32_MIN;  // vectors compare with a sign
  for (std::size_t first = 0; first < size; first += 2 * width) {
    // Two variables, not an array: GCC would write an array to memory after each key.
    const Some mine = read_as<Some>(keys + first) ^ flipped;
    const Some others = read_as<Some>(keys + first + width) ^ flipped;
    Some smaller = {}, smaller_too = {};
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t key = static_cast<std::int32_t>(keys[i]) ^ flipped;
      smaller -= key < mine;
      smaller_too -= key < others;
    }
    write(places + first, smaller);
    write(places + first + width, smaller_too);
  }
  std::size_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += places[i];
  return size == 0 || sum == size * (size - 1) / 2;
}

template <class T>
[[gnu::noinline]] inline void sort_many(const std::uint32_t* keys, const T* values,
                                        std::size_t size, std::uint32_t* sorted_keys,
                                        T* sorted_values) {
  std::vector<std::pair<std::uint32_t, T>> both;
  for (std::size_t i = 0; i < size; ++i) both.emplace_back(keys[i], values[i]);
  std::sort(both.begin(), both.end());
  for (std::size_t i = 0; i < size; ++i) std::tie(sorted_keys[i], sorted_values[i]) = both[i];
}

// Puts keys, each with a value, in order of key, then of value. Keys are padded by `more_keys`.
template <std::size_t width = 4, class T>
PQR_ALWAYS_INLINE inline void sort_keys(const std::uint32_t* keys, const T* values,
                                        std::size_t size, std::uint32_t* sorted_keys,
                                        T* sorted_values) {
  std::uint32_t places[few_keys + more_keys];
  if (size > few_keys || !places_in_order<width>(keys, size, places)) {
    return sort_many(keys, values, size, sorted_keys, sorted_values);
  }
  for (std::size_t i = 0; i < size; ++i) {
    sorted_keys[places[i]] = keys[i];
    sorted_values[places[i]] = values[i];
  }
}

class RowBuffer {
 public:
  std::vector<std::int64_t> indptr{0};
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<double> labels;
  std::vector<float> weights;
  std::vector<std::int64_t> lines;  // where each row stood in its file, from 1

  std::size_t rows() const { return labels.size(); }

  Rows view() const {
    return {indptr.data(), indices.data(), values.data(), labels.data(), weights.data(), rows()};
  }

  // Removes all rows, and keeps their memory.
  void clear() {
    indptr.assign(1, 0);
    indices.clear();
    values.clear();
    labels.clear();
    weights.clear();
    lines.clear();
  }

  void push(std::uint32_t index, float value) {
    indices.push_back(index);
    values.push_back(value);
  }

  void push(const std::uint32_t* more_indices, const float* more_values, std::size_t count) {
    indices.insert(indices.end(), more_indices, more_indices + count);
    values.insert(values.end(), more_values, more_values + count);
  }

  void reserve(std::size_t row_count, std::size_t feature_count) {
    indptr.reserve(row_count + 1);
    labels.reserve(row_count);
    weights.reserve(row_count);
    lines.reserve(row_count);
    indices.reserve(feature_count);
    values.reserve(feature_count);
  }

  // Ends the row that push() has filled. Returns false, and drops the row, if the
  // sum of a repeated feature is not finite.
  bool end_row(double label, float weight, std::int64_t line) {
    const auto begin = static_cast<std::size_t>(indptr.back());
    const std::size_t size = indices.size() - begin;
    if (!is_canonical(indices.data() + begin, values.data() + begin, size) && !sort(begin, size)) {
      indices.resize(begin);
      values.resize(begin);
      return false;
    }
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
    labels.push_back(label);
    weights.push_back(weight);
    lines.push_back(line);
    return true;
  }

 private:
  std::vector<std::uint32_t> given_indices_;
  std::vector<float> given_values_;

  // Repeats are summed in order of value, in double, so that the sum does not
  // depend on the order in which they were given.
  [[gnu::noinline]] bool sort(std::size_t begin, std::size_t size) {
    const std::size_t end = begin + size;
    given_indices_.assign(indices.data() + begin, indices.data() + end);
    given_indices_.resize(size + more_keys);
    given_values_.assign(values.data() + begin, values.data() + end);
    sort_keys(given_indices_.data(), given_values_.data(), size, indices.data() + begin,
              values.data() + begin);
    std::size_t out = begin;
    for (std::size_t i = begin; i < end;) {
      const std::uint32_t index = indices[i];
      double sum = 0.0;
      for (; i < end && indices[i] == index; ++i) sum += values[i];
      const auto value = static_cast<float>(sum);
      if (!std::isfinite(value)) return false;
      if (value == 0.0f) continue;
      indices[out] = index;
      values[out++] = value;
    }
    indices.resize(out);
    values.resize(out);
    return true;
  }
};

}  // namespace pqr
