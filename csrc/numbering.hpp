// Columns whose cells are codes into texts -> rows of numbered features. A text is looked up once
// for each batch and column, not once for each row; or once for all batches whose column has the
// same Lookup.
//
// New names get the next indices by first appearance, row by row, and within a row in the order of
// the columns: indices do not depend on how rows are cut into batches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "digest.hpp"
#include "lanes.hpp"
#include "names.hpp"
#include "row.hpp"

namespace pqr {

// The indices of the features that codes stand for, by code + 1; the first is that of code -1.
struct Lookup {
  static constexpr std::int64_t absent = -1, unknown = -2;
  std::vector<std::int64_t> found{absent};
  std::size_t known = 1;  // none of the first ones is unknown

  std::size_t codes() const { return found.size() - 1; }
  void set(std::size_t at, std::int64_t index) {
    found[at] = index;
    while (known < found.size() && found[known] != unknown) ++known;
  }
};

// The name of a cell is `prefix` and its text. Absent are a code of -1, a value of 0, and an empty
// name. Texts are those of the codes from `base` on; all codes below are in the lookup.
struct Coded {
  std::string_view prefix;
  const std::int64_t* offsets;  // of the texts: one more than there are
  const char* bytes;
  std::size_t size_in_bytes;
  std::size_t texts;
  std::size_t base;
  Lookup* lookup;
  const std::int32_t* codes;
  std::size_t size;      // how many codes
  const float* values;   // nullptr when all are 1
  std::size_t of_codes;  // how many values, where they belong to codes, by code + 1; 0 where they
                         // stand beside the codes
  const std::int64_t* first;  // where the codes of each row begin, and the end of the last row's;
                              // nullptr when each row has one

  float value(std::size_t cell) const {
    if (!values) return 1.0f;
    return values[of_codes ? static_cast<std::size_t>(codes[cell] + 1) : cell];
  }
  std::string_view text(std::size_t code) const {
    const std::int64_t begin = offsets[code - base], end = offsets[code - base + 1];
    return {bytes + begin, static_cast<std::size_t>(end - begin)};
  }
  // Texts are checked when they are first used: a dictionary may be much larger than a batch.
  bool has_text(std::size_t code) const {
    if (code < base || code >= base + texts) return false;
    const std::int64_t begin = offsets[code - base], end = offsets[code - base + 1];
    return 0 <= begin && begin <= end && static_cast<std::size_t>(end) <= size_in_bytes;
  }
};

// With `hash_bits` > 0 indices are hashes, and no names are kept. Once there are `most` names, the
// texts of a column that have none share the name `prefix*`, or `n=*` if the column has no prefix
// and the text is `n=value`. A column of one name without text, such as a number, keeps its own.
struct Limits {
  unsigned hash_bits = 0;
  std::uint64_t most = std::uint64_t{1} << 32;
};

class Numbering {
 public:
  std::vector<std::uint32_t> new_indices;  // of names that `fresh` did not have, in order
  std::vector<std::int64_t> new_rows;      // where each is first met
  std::vector<std::int64_t> new_ends{0};   // of the names, in `new_bytes`
  std::vector<std::uint8_t> new_bytes;
  std::uint64_t replaced = 0;  // cells that share the name `prefix*`

  Numbering(std::vector<Coded> columns, std::size_t rows)
      : columns_(std::move(columns)), rows_(rows), used_(columns_.size()) {}

  // Which texts are not in the lookup yet, and where each is first used. Needs no names, so others
  // may use them meanwhile. False when a code has no text.
  bool scan() {
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      const Coded& column = columns_[at];
      Lookup& lookup = *column.lookup;
      const std::size_t codes = std::max(lookup.found.size(), column.base + column.texts + 1);
      if (column.base > lookup.codes() || (column.of_codes && column.of_codes < codes)) {
        return false;
      }
      lookup.found.resize(codes, Lookup::unknown);
      for (std::size_t cell = 0; cell < column.size; ++cell) {
        if (cell % block == 0 && all_known(column, cell)) {
          cell += block - 1;
          continue;
        }
        const std::size_t code = static_cast<std::uint32_t>(column.codes[cell]) + 1u;
        if (code < lookup.known) continue;
        if (code >= codes) return false;
        if (lookup.found[code] != Lookup::unknown || column.value(cell) == 0.0f) continue;
        if (!column.has_text(code - 1)) return false;
        lookup.set(code, Lookup::absent);
        used_[at].push_back({code - 1, cell});
      }
    }
    return true;
  }

  // Names are looked up in `known` and in `fresh`, which may be the same; new ones are added to
  // `fresh`, from its next feature on.
  void look_up(const Names& known, Names& fresh, Limits limits) {
    std::vector<New> unknown;
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      if (limits.hash_bits > 0) {
        hash(at, limits.hash_bits);
      } else {
        find(at, known, fresh, unknown);
      }
    }
    sort_by_row(unknown);
    const std::size_t kept = &known == &fresh ? 0 : known.size();
    for (std::size_t n = 0; n < unknown.size(); ++n) {
      if (n + together < unknown.size()) {
        const New& later = unknown[n + together];
        fresh.prefetch(name_of(columns_[later.column], later.code));
      }
      add(unknown[n], known, fresh, kept, limits.most);
    }
    count_replaced();
  }

  // Replaces what is in `out` by the rows, without labels; without values if all of them are 1.
  // Returns how many are good: all, or those before one in which the sum of a repeated feature is
  // not finite.
  std::size_t fill(RowBuffer& out) const {
    std::size_t features = 0;
    bool single = columns_.size() <= few_keys, ones = true;
    for (const Coded& column : columns_) {
      features += column.size;
      single = single && !column.first;
      ones = ones && !column.values;
    }
    if (single && (ones ? fill_ones(out) : fill_tiles(out))) return rows_;
    out.clear();
    out.reserve(rows_, features);
    for (std::size_t row = 0; row < rows_; ++row) {
      for (const Coded& column : columns_) push(column, row, out);
      if (!out.end_row(0.0, 1.0f, 0)) return row;
    }
    return rows_;
  }

 private:
  static constexpr std::size_t block = 256;    // cells that are known, or not, at once
  static constexpr std::size_t together = 16;  // names, about as many as loads can be in flight
  static constexpr std::size_t repeated = ~std::size_t{0};  // of rows that have a feature twice

  struct Used {
    std::size_t code, first;
  };
  struct New {
    std::size_t row, column, code;
  };

  std::vector<Coded> columns_;
  std::size_t rows_;
  std::vector<std::vector<Used>> used_;
  std::vector<New> shared_;  // texts that share a name
  std::string text_;

  // Whether the cells of a whole block have codes that are known; a loop that vectorises.
  static bool all_known(const Coded& column, std::size_t cell) {
    if (column.size - cell < block) return false;
    const auto known =
        static_cast<std::uint32_t>(std::min<std::size_t>(column.lookup->known, 0x80000000u));
    std::uint32_t unknown = 0;
    for (std::size_t n = 0; n < block; ++n) {
      unknown |= std::uint32_t{static_cast<std::uint32_t>(column.codes[cell + n]) + 1u >= known};
    }
    return unknown == 0;
  }

  std::size_t row_of(const Coded& column, std::size_t cell) const {
    if (!column.first) return cell;
    const auto* const end = column.first + rows_ + 1;
    const auto* const after = std::upper_bound(column.first, end, static_cast<std::int64_t>(cell));
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
      columns_[at].lookup->found[used.code + 1] =
          static_cast<std::int64_t>(digest.value() >> (64 - bits));
    }
  }

  void find(std::size_t at, const Names& known, const Names& fresh, std::vector<New>& unknown) {
    const Coded& column = columns_[at];
    std::array<std::string, together> names;
    std::array<std::uint32_t, together> hashes;
    std::array<std::size_t, together> buckets;
    const std::vector<Used>& used = used_[at];
    for (std::size_t begin = 0; begin < used.size(); begin += together) {
      const std::size_t count = std::min(together, used.size() - begin);
      for (std::size_t n = 0; n < count; ++n) {
        names[n].assign(column.prefix).append(column.text(used[begin + n].code));
        hashes[n] = known.prefetch(names[n]);
      }
      for (std::size_t n = 0; n < count; ++n) {
        buckets[n] = known.prefetch_record(hashes[n], names[n].size());
      }
      for (std::size_t n = 0; n < count; ++n) {
        const auto [code, cell] = used[begin + n];
        if (names[n].empty()) continue;
        const std::uint32_t* index = known.find(names[n], hashes[n], buckets[n]);
        if (!index && &known != &fresh) index = fresh.find(names[n]);
        if (index) {
          column.lookup->found[code + 1] = *index;
        } else {
          unknown.push_back({row_of(column, cell), at, code});
        }
      }
    }
  }

  // By counting: texts come column by column, each in order of cells, and stay so within a row.
  void sort_by_row(std::vector<New>& texts) const {
    if (texts.empty()) return;
    std::vector<std::size_t> next(rows_ + 1);
    for (const New& text : texts) ++next[text.row + 1];
    for (std::size_t row = 1; row < rows_; ++row) next[row] += next[row - 1];
    std::vector<New> sorted(texts.size());
    for (const New& text : texts) sorted[next[text.row]++] = text;
    texts.swap(sorted);
  }

  // Two columns may have the same name.
  void add(const New& text, const Names& known, Names& fresh, std::size_t kept,
           std::uint64_t most) {
    const Coded& column = columns_[text.column];
    std::string_view name = name_of(column, text.code);
    std::int64_t& found = column.lookup->found[text.code + 1];
    if (kept + fresh.size() >= most && !column.text(text.code).empty() && !fresh.find(name)) {
      shared_.push_back(text);
      name = shared_name(column);
      if (const std::uint32_t* index = known.find(name)) {
        found = *index;
        return;
      }
    }
    const std::uint64_t next = fresh.next_feature();
    if (next <= 0xFFFFFFFFull && fresh.add(static_cast<std::uint32_t>(next), name)) {
      found = static_cast<std::int64_t>(next);
      new_indices.push_back(static_cast<std::uint32_t>(next));
      new_rows.push_back(static_cast<std::int64_t>(text.row));
      new_bytes.insert(new_bytes.end(), name.begin(), name.end());
      new_ends.push_back(static_cast<std::int64_t>(new_bytes.size()));
      return;
    }
    const std::uint32_t* const index = fresh.find(name);
    if (!index) throw std::length_error("no index below 2^32 is left for a new name");
    found = *index;
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
    for (const New& text : shared_) {
      shared[text.column].resize(columns_[text.column].lookup->codes());
      shared[text.column][text.code] = true;
    }
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      if (shared[at].empty()) continue;
      const Coded& column = columns_[at];
      for (std::size_t n = 0; n < column.size; ++n) {
        if (column.codes[n] < 0 || column.value(n) == 0.0f) continue;
        replaced += shared[at][static_cast<std::size_t>(column.codes[n])];
      }
    }
  }

  // Some rows of up to `few_keys` features, all of value 1. Row r has keys[c * rows + r], so that
  // one instruction sorts several rows; an absent feature is larger than all others.
  struct Ones {
    static constexpr std::size_t rows = 64;
    std::array<std::uint32_t, rows * few_keys> keys;
    std::array<std::uint32_t, rows> sizes;

    void take(const Coded& column, std::size_t at, std::size_t row, std::size_t count) {
      const std::int32_t* const codes = column.codes + row;
      const std::int64_t* const found = column.lookup->found.data() + 1;
      std::int64_t all = 0;  // negative if one is
      for (std::size_t r = 0; r < count; ++r) {
        const std::int64_t index = found[codes[r]];
        keys[at * rows + r] = static_cast<std::uint32_t>(index);
        all |= index;
      }
      for (std::size_t r = 0; r < count; ++r) sizes[r] += all >= 0 || found[codes[r]] >= 0;
    }
    template <std::size_t width>
    PQR_ALWAYS_INLINE void sort(std::size_t one, std::size_t other) {
      using Some = Vector<std::uint32_t, width>;
      for (std::size_t r = 0; r < rows; r += width) {
        const Some x = read_as<Some>(&keys[one * rows + r]);
        const Some y = read_as<Some>(&keys[other * rows + r]);
        write(&keys[one * rows + r], smaller(x, y));
        write(&keys[other * rows + r], larger(x, y));
      }
    }
    // False when a feature comes twice.
    bool put(std::size_t r, std::uint32_t* out) const {
      const std::size_t size = sizes[r];
      std::uint32_t twice = 0, before = ~keys[r];
      for (std::size_t c = 0; c < size; ++c) {
        const std::uint32_t key = keys[c * rows + r];
        twice |= std::uint32_t{key == before};
        out[c] = before = key;
      }
      return twice == 0;
    }
  };

  // Which pairs are put in order, one after the other, to sort any `size` keys: Batcher's merge
  // exchange (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M).
  static std::vector<std::pair<std::size_t, std::size_t>> sorting_network(std::size_t size) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::size_t top = 1;
    while (2 * top < size) top *= 2;
    for (std::size_t p = top; p > 0; p /= 2) {
      for (std::size_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
        for (std::size_t i = 0; i + d < size; ++i) {
          if ((i & p) == r) pairs.emplace_back(i, i + d);
        }
        if (q == p) break;
      }
    }
    return pairs;
  }

  // At most one value per column and row, each of them 1. False when a row has a feature twice.
  bool fill_ones(RowBuffer& out) const {
    begin_tiles(out);
    const auto network = sorting_network(columns_.size());
    const auto tile = std::make_unique<Ones>();
    std::size_t done = 0;
    for (std::size_t row = 0; row < rows_; row += Ones::rows) {
      const std::size_t rows = std::min(Ones::rows, rows_ - row);
      tile->sizes.fill(0);
      for (std::size_t c = 0; c < columns_.size(); ++c) tile->take(columns_[c], c, row, rows);
      vectorised(has_avx2(), [&](auto width) PQR_ALWAYS_INLINE {
        for (const auto [one, other] : network)
          tile->template sort<decltype(width)::value>(one, other);
      });
      for (std::size_t r = 0; r < rows; ++r) {
        if (!tile->put(r, out.indices.data() + done)) return false;
        done += tile->sizes[r];
        out.indptr.push_back(static_cast<std::int64_t>(done));
      }
    }
    out.indices.resize(done);
    return true;
  }

  void begin_tiles(RowBuffer& out) const {
    out.indptr.assign(1, 0);
    out.indptr.reserve(rows_ + 1);
    out.indices.resize(rows_ * columns_.size());
  }

  // The same with values. Some rows at a time are looked up column by column, so that many loads
  // are in flight at once.
  struct Tile {
    // Rows that take 20 kB, which stay in L1.
    static constexpr std::size_t rows = 32, width = few_keys + more_keys;
    std::array<std::uint32_t, rows * width> keys;
    std::array<float, rows * width> values;
    std::array<std::size_t, rows> sizes;

    // The cells of one column, behind those that the rows have.
    void take(const Coded& column, std::size_t row, std::size_t count) {
      const std::int32_t* const codes = column.codes + row;
      const std::int64_t* const found = column.lookup->found.data() + 1;
      for (std::size_t r = 0; r < count; ++r) {
        const std::int64_t index = found[codes[r]];
        const std::size_t to = r * width + sizes[r];
        keys[to] = static_cast<std::uint32_t>(index);
        values[to] = column.value(row + r);
        sizes[r] += index >= 0 && values[to] != 0.0f;
      }
    }
  };

  bool fill_tiles(RowBuffer& out) const {
    begin_tiles(out);
    out.values.resize(out.indices.size());
    const auto tile = std::make_unique<Tile>();
    const std::size_t size =
        vectorised(has_avx2(), [this, &out, &tile](auto width) PQR_ALWAYS_INLINE {
          std::size_t done = 0;
          for (std::size_t row = 0; row < rows_; row += tile->rows) {
            const std::size_t rows = std::min(tile->rows, rows_ - row);
            tile->sizes.fill(0);
            for (const Coded& column : columns_) tile->take(column, row, rows);
            for (std::size_t r = 0; r < rows; ++r) {
              const std::uint32_t* const keys = &tile->keys[r * tile->width];
              const float* const values = &tile->values[r * tile->width];
              const std::size_t keys_in_row = tile->sizes[r];
              std::uint32_t places[Tile::width];
              if (!places_in_order<decltype(width)::value>(keys, keys_in_row, places))
                return repeated;
              for (std::size_t i = 0; i < keys_in_row; ++i) {
                out.indices[done + places[i]] = keys[i];
                out.values[done + places[i]] = values[i];
              }
              done += keys_in_row;
              out.indptr.push_back(static_cast<std::int64_t>(done));
            }
          }
          return done;
        });
    if (size == repeated) return false;
    out.indices.resize(size);
    out.values.resize(size);
    return true;
  }

  static void push(const Coded& column, std::size_t row, RowBuffer& out) {
    std::size_t at = row, end = row + 1;
    if (column.first) {
      at = static_cast<std::size_t>(column.first[row]);
      end = static_cast<std::size_t>(column.first[row + 1]);
    }
    for (; at < end; ++at) {
      const std::int64_t index =
          column.lookup->found[static_cast<std::size_t>(column.codes[at] + 1)];
      if (index >= 0) out.push(static_cast<std::uint32_t>(index), column.value(at));
    }
  }
};

}  // namespace pqr
