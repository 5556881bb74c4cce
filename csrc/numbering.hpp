// Columns whose cells are codes into texts -> rows of numbered features. A text is looked up once
// for each block of rows and column, not once for each row.
//
// New names are numbered by first appearance, row by row, and within a row in the order of the
// columns: numbers do not depend on how rows are cut into blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "digest.hpp"
#include "names.hpp"
#include "row.hpp"

namespace pqr {

// The name of a cell is `prefix` and its text. Absent are a code of -1, a value of 0, and a name
// without letters.
struct Coded {
  std::string_view prefix;
  const std::int64_t* offsets;  // of the texts: one more than there are
  const char* bytes;
  std::size_t texts;
  const std::int32_t* codes;
  std::size_t size;           // how many codes
  const float* values;        // beside the codes; nullptr when all are 1
  const std::int64_t* first;  // where the codes of each row begin, and the end of the last row's;
                              // nullptr when each row has one

  std::string_view text(std::size_t code) const {
    return {bytes + offsets[code], static_cast<std::size_t>(offsets[code + 1] - offsets[code])};
  }
};

// `hash_bits` > 0 makes numbers of hashes, and keeps no names. Once there are `most` names, the
// texts of a column that have none share the name `prefix*`, or `n=*` if the column has no prefix
// and the text is `n=value`. A column of one name without text, such as a number, keeps its own.
struct Limits {
  unsigned hash_bits = 0;
  std::uint64_t most = std::uint64_t{1} << 32;
};

class Numbering {
 public:
  std::vector<std::uint32_t> new_indices;  // of names that `fresh` did not have, in order
  std::vector<std::size_t> new_rows;       // where each is first met
  std::uint64_t replaced = 0;              // cells that share the name `prefix*`

  Numbering(std::vector<Coded> columns, std::size_t rows)
      : columns_(std::move(columns)), rows_(rows), found_(columns_.size()) {}

  // Where each text is first used. Needs no names, so others may use them meanwhile.
  void scan() {
    for (const Coded& column : columns_) {
      std::vector<std::size_t> first(column.texts, nowhere);
      for (std::size_t at = column.size; at-- > 0;) {
        if (column.codes[at] < 0 || (column.values && column.values[at] == 0.0f)) continue;
        first[static_cast<std::size_t>(column.codes[at])] = at;
      }
      used_.emplace_back();
      for (std::size_t code = 0; code < column.texts; ++code) {
        if (first[code] != nowhere) used_.back().push_back({code, first[code]});
      }
    }
  }

  // Names are looked up in `known` and in `fresh`, which may be the same; new ones are added to
  // `fresh`, from its next feature on.
  void look_up(const Names& known, Names& fresh, Limits limits) {
    std::vector<New> unknown;
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      found_[at].assign(columns_[at].texts + 1, absent);
      if (limits.hash_bits > 0) {
        hash(at, limits.hash_bits);
      } else {
        find(at, known, fresh, unknown);
      }
    }
    std::sort(unknown.begin(), unknown.end());
    const std::size_t kept = &known == &fresh ? 0 : known.size();
    for (const New& cell : unknown) add(cell, known, fresh, kept, limits.most);
    count_replaced();
  }

  // Appends the rows, without labels. Returns how many are good: all, or those before one in which
  // the sum of a repeated feature is not finite.
  std::size_t fill(RowBuffer& out) const {
    std::size_t features = 0;
    for (const Coded& column : columns_) features += column.size;
    out.reserve(rows_, features);
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t at = 0; at < columns_.size(); ++at) push(columns_[at], found_[at], row, out);
      if (!out.end_row(0.0, 1.0f, 0)) return row;
    }
    return rows_;
  }

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};
  static constexpr std::int64_t absent = -1;
  static constexpr std::size_t together = 16;  // names on their way through the caches

  struct Used {
    std::size_t code, first;
  };
  struct New {
    std::size_t row, column, place, code;
    bool operator<(const New& other) const {
      return std::tie(row, column, place) < std::tie(other.row, other.column, other.place);
    }
  };

  std::vector<Coded> columns_;
  std::size_t rows_;
  std::vector<std::vector<Used>> used_;
  std::vector<std::vector<std::int64_t>> found_;  // by code + 1; the first is that of code -1
  std::vector<New> shared_;                       // texts that share a name
  std::string text_;

  std::size_t row_of(const Coded& column, std::size_t place) const {
    if (!column.first) return place;
    const auto* const end = column.first + rows_ + 1;
    const auto* const after = std::upper_bound(column.first, end, static_cast<std::int64_t>(place));
    return static_cast<std::size_t>(after - column.first) - 1;
  }

  std::string_view name_of(const Coded& column, std::size_t code) {
    text_.assign(column.prefix).append(column.text(code));
    return text_;
  }

  void hash(std::size_t at, unsigned bits) {
    for (const Used& used : used_[at]) {
      const std::string_view name = name_of(columns_[at], used.code);
      if (name.empty()) continue;
      Digest digest;
      digest.update(reinterpret_cast<const unsigned char*>(name.data()), name.size());
      found_[at][used.code + 1] = static_cast<std::int64_t>(digest.value() >> (64 - bits));
    }
  }

  void find(std::size_t at, const Names& known, const Names& fresh, std::vector<New>& unknown) {
    const Coded& column = columns_[at];
    std::array<std::string, together> names;
    std::array<std::uint32_t, together> hashes;
    std::array<std::size_t, together> places;
    const std::vector<Used>& used = used_[at];
    for (std::size_t begin = 0; begin < used.size(); begin += together) {
      const std::size_t count = std::min(together, used.size() - begin);
      for (std::size_t n = 0; n < count; ++n) {
        names[n].assign(column.prefix).append(column.text(used[begin + n].code));
        hashes[n] = known.prefetch(names[n]);
      }
      for (std::size_t n = 0; n < count; ++n) {
        places[n] = known.prefetch_record(hashes[n], names[n].size());
      }
      for (std::size_t n = 0; n < count; ++n) {
        const Used& cell = used[begin + n];
        if (names[n].empty()) continue;
        const std::uint32_t* index = known.find(names[n], hashes[n], places[n]);
        if (!index && &known != &fresh) index = fresh.find(names[n]);
        if (index) {
          found_[at][cell.code + 1] = *index;
        } else {
          unknown.push_back({row_of(column, cell.first), at, cell.first, cell.code});
        }
      }
    }
  }

  // Two columns may have the same name.
  void add(const New& cell, const Names& known, Names& fresh, std::size_t kept,
           std::uint64_t most) {
    const Coded& column = columns_[cell.column];
    std::string_view name = name_of(column, cell.code);
    const std::uint32_t* index = fresh.find(name);
    if (!index && kept + fresh.size() >= most && !column.text(cell.code).empty()) {
      shared_.push_back(cell);
      name = shared_name(column);
      index = known.find(name);
      if (!index) index = fresh.find(name);
    }
    std::int64_t& found = found_[cell.column][cell.code + 1];
    if (index) {
      found = *index;
      return;
    }
    const std::uint64_t next = fresh.next_feature();
    if (next > 0xFFFFFFFFull) throw std::length_error("no index below 2^32 is left for a new name");
    found = static_cast<std::int64_t>(next);
    fresh.add(static_cast<std::uint32_t>(next), name);
    new_indices.push_back(static_cast<std::uint32_t>(next));
    new_rows.push_back(cell.row);
  }

  // Of the name in text_: the column's, or what stands before the value in `namespace=value`.
  std::string_view shared_name(const Coded& column) {
    const std::size_t sign = text_.find('=');
    const std::size_t head = sign == std::string::npos ? 0 : sign + 1;
    text_.resize(column.prefix.empty() ? head : column.prefix.size());
    return text_ += '*';
  }

  void count_replaced() {
    std::vector<std::vector<bool>> shared(columns_.size());
    for (const New& cell : shared_) {
      shared[cell.column].resize(columns_[cell.column].texts);
      shared[cell.column][cell.code] = true;
    }
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      if (shared[at].empty()) continue;
      const Coded& column = columns_[at];
      for (std::size_t n = 0; n < column.size; ++n) {
        if (column.codes[n] < 0 || (column.values && column.values[n] == 0.0f)) continue;
        replaced += shared[at][static_cast<std::size_t>(column.codes[n])];
      }
    }
  }

  static void push(const Coded& column, const std::vector<std::int64_t>& found, std::size_t row,
                   RowBuffer& out) {
    std::size_t at = row, end = row + 1;
    if (column.first) {
      at = static_cast<std::size_t>(column.first[row]);
      end = static_cast<std::size_t>(column.first[row + 1]);
    }
    for (; at < end; ++at) {
      const std::int64_t index = found[static_cast<std::size_t>(column.codes[at] + 1)];
      if (index < 0) continue;
      out.push(static_cast<std::uint32_t>(index), column.values ? column.values[at] : 1.0f);
    }
  }
};

}  // namespace pqr
