// Columns from Python as rows of numbered features, and the names that come with them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../coding.hpp"
#include "../names.hpp"
#include "../numbering.hpp"
#include "../row.hpp"
#include "arrays.hpp"
#include "dicts.hpp"

namespace pqr::bind {

// Codes of Arrow columns of text. Texts that come again, in any column, have the code they had.
// `valid` says which cells have a value.
template <class Offset>
auto code_texts(Coding& coding, const In<Offset>& offsets, const In<std::uint8_t>& bytes,
                const std::optional<In<bool>>& valid) {
  const std::size_t size = offsets.size() - 1;
  if (offsets.size() == 0) refuse("offsets of texts are empty; there must be one more than texts");
  if (size + coding.offsets.size() > 0x7FFFFFFF)
    refuse("more than 2147483647 texts in one batch; read smaller batches");
  if (valid && valid->size() != size) refuse("texts and `valid` differ in length");
  std::vector<std::int32_t> codes(size, -1);
  bool good = offsets.data()[0] >= 0;
  {
    nb::gil_scoped_release release;
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    std::array<Coding::Key, 16> keys;  // about as many as loads can be in flight
    for (std::size_t first = 0; first < size && good; first += keys.size()) {
      const std::size_t count = std::min(keys.size(), size - first);
      for (std::size_t n = 0; n < count && good; ++n) {
        const Offset begin = offsets.data()[first + n], end = offsets.data()[first + n + 1];
        good = begin <= end && static_cast<std::size_t>(end) <= bytes.size();
        const bool missing = !good || (valid && !valid->data()[first + n]);
        if (missing) {
          keys[n] = {};
          continue;
        }
        const auto from = static_cast<std::size_t>(begin);
        keys[n] =
            coding.key({text + from, static_cast<std::size_t>(end) - from}, bytes.size() - from);
      }
      for (std::size_t n = 0; n < count && good; ++n) codes[first + n] = coding.code(keys[n]);
    }
  }
  if (!good) refuse("offsets of texts must rise within the bytes");
  return give(std::move(codes));
}

// The texts of the codes from `first` on.
inline nb::tuple coded_texts(const Coding& coding, std::size_t first) {
  if (first >= coding.offsets.size())
    refuse("first=" + std::to_string(first) + " is beyond the last code");
  std::vector<std::int64_t> offsets(coding.offsets.begin() + static_cast<std::ptrdiff_t>(first),
                                    coding.offsets.end());
  const std::int64_t begin = offsets.front();
  std::vector<std::uint8_t> bytes(coding.bytes.begin() + begin, coding.bytes.end());
  for (std::int64_t& offset : offsets) offset -= begin;
  return nb::make_tuple(give(std::move(offsets)), give(std::move(bytes)));
}

// The arrays of one column, held while they are used: (prefix, offsets, bytes, codes, values,
// of_codes, first, base, lookup), of which values, first and lookup may be None.
struct HeldColumn {
  std::string prefix;
  In<std::int64_t> offsets;
  In<std::uint8_t> bytes;
  In<std::int32_t> codes;
  In<float> values;
  In<std::int64_t> first;
  std::size_t base = 0;
  nb::object held_lookup;
  Lookup* lookup = nullptr;
  std::unique_ptr<Lookup> own_lookup;
  bool has_values = false, of_codes = false, has_first = false;

  explicit HeldColumn(const nb::handle& given) {
    const auto fields = nb::cast<nb::tuple>(given);
    if (fields.size() != 9)
      refuse("a column has nine fields, not " + std::to_string(fields.size()));
    prefix = std::string(utf8(fields[0].ptr()));
    offsets = nb::cast<In<std::int64_t>>(fields[1]);
    bytes = nb::cast<In<std::uint8_t>>(fields[2]);
    codes = nb::cast<In<std::int32_t>>(fields[3]);
    has_values = !fields[4].is_none();
    of_codes = has_values && nb::cast<bool>(fields[5]);
    has_first = !fields[6].is_none();
    if (has_values) values = nb::cast<In<float>>(fields[4]);
    if (has_first) first = nb::cast<In<std::int64_t>>(fields[6]);
    base = nb::cast<std::size_t>(fields[7]);
    if (fields[8].is_none()) {
      own_lookup = std::make_unique<Lookup>();
      lookup = own_lookup.get();
    } else {
      held_lookup = nb::borrow(fields[8]);
      lookup = nb::cast<Lookup*>(held_lookup);
    }
  }

  // What the core relies on, but for codes and their texts, which it checks itself.
  Coded checked(std::size_t rows) const {
    if (offsets.size() == 0)
      refuse("offsets of a column are empty; there must be one more than texts");
    if (base > 0x7FFFFFFF) refuse("more than 2147483647 texts in one column");
    check_values();
    check_first(rows);
    return {prefix,
            offsets.data(),
            reinterpret_cast<const char*>(bytes.data()),
            bytes.size(),
            offsets.size() - 1,
            base,
            lookup,
            codes.data(),
            codes.size(),
            has_values ? values.data() : nullptr,
            of_codes ? values.size() : 0,
            has_first ? first.data() : nullptr};
  }

 private:
  void check_values() const {
    if (!has_values) return;
    if (of_codes && values.size() == 0)
      refuse("values of codes are empty; there must be one for each code");
    if (!of_codes && values.size() != codes.size()) refuse("codes and values differ in length");
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (!std::isfinite(values.data()[n])) refuse("a value is not a finite 32-bit float");
    }
  }
  void check_first(std::size_t rows) const {
    if (!has_first) {
      if (codes.size() != rows) refuse("a column needs one code per row");
      return;
    }
    if (first.size() != rows + 1 || first.data()[0] != 0 ||
        first.data()[rows] != static_cast<std::int64_t>(codes.size())) {
      refuse("first must start with 0, end at len(codes) and have one entry more than rows");
    }
    for (std::size_t r = 0; r < rows; ++r) {
      if (first.data()[r + 1] < first.data()[r]) refuse(in_row(r, "first must not fall"));
    }
  }
};

// The indices of many rows take megabytes, and fresh memory costs about as much as filling it:
// arrays that Python has let go are used again. The GIL guards them.
class Spare {
 public:
  static Spare& kept() {
    static auto* const spare = new Spare;  // never destroyed: arrays may outlive it otherwise
    return *spare;
  }
  std::vector<std::uint32_t> take() {
    return count_ ? std::move(arrays_[--count_]) : std::vector<std::uint32_t>();
  }
  Out<std::uint32_t> give(std::vector<std::uint32_t>&& array) {
    auto* owned = new std::vector(std::move(array));
    nb::capsule owner(owned, [](void* p) noexcept {
      const std::unique_ptr<std::vector<std::uint32_t>> left(
          static_cast<std::vector<std::uint32_t>*>(p));
      Spare& spare = kept();
      if (spare.count_ < most) spare.arrays_[spare.count_++] = std::move(*left);
    });
    return {owned->data(), {owned->size()}, owner};
  }

 private:
  static constexpr std::size_t most = 4;  // about as many as come back while one is filled
  std::array<std::vector<std::uint32_t>, most> arrays_;
  std::size_t count_ = 0;
};

// Values that are all 1, which many arrays share.
inline nb::ndarray<nb::numpy, const float, nb::ndim<1>> ones(std::size_t size) {
  using Shared = std::shared_ptr<const std::vector<float>>;
  static auto* const kept = new Shared;
  if (!*kept || (*kept)->size() < size) {
    *kept = std::make_shared<const std::vector<float>>(size, 1.0f);
  }
  auto* const owned = new Shared(*kept);
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Shared*>(p); });
  return {(*owned)->data(), {size}, owner};
}

// Names are looked up and added under the GIL, which guards them; all else runs without it.
inline nb::tuple number_rows(const nb::list& columns, std::size_t rows, const Names& known,
                             Names& fresh, unsigned hash_bits, std::uint64_t most) {
  if (hash_bits > 32) refuse("hash_bits must be at most 32");
  std::vector<HeldColumn> held;
  held.reserve(columns.size());
  for (const nb::handle column : columns) held.emplace_back(column);
  std::vector<Coded> coded;
  for (const HeldColumn& column : held) coded.push_back(column.checked(rows));
  Numbering numbering(std::move(coded), rows);
  bool has_texts = false;
  {
    nb::gil_scoped_release release;
    has_texts = numbering.scan();
  }
  if (!has_texts) refuse("a code has no text, or no value");
  try {
    numbering.look_up(known, fresh, {hash_bits, most});
  } catch (const std::length_error& error) {
    refuse(error.what());
  }
  RowBuffer out;
  out.indices = Spare::kept().take();
  std::size_t good = 0;
  {
    nb::gil_scoped_release release;
    good = numbering.fill(out);
  }
  if (good < rows) refuse(in_row(good, "the sum of a repeated feature is not finite"));
  const std::size_t size = out.indices.size();
  const bool has_values = out.values.size() == size;
  return nb::make_tuple(give(std::move(out.indptr)), Spare::kept().give(std::move(out.indices)),
                        has_values ? nb::cast(give(std::move(out.values))) : nb::cast(ones(size)),
                        give(std::move(numbering.new_indices)), give(std::move(numbering.new_ends)),
                        give(std::move(numbering.new_bytes)), give(std::move(numbering.new_rows)),
                        numbering.replaced);
}

// Adds names to a dictionary that may have some of them with the same index. Returns how many were
// good: all, or those before one that has another index, or whose index is taken.
inline std::size_t add_each(Names& names, const In<std::uint32_t>& indices,
                            const In<std::int64_t>& offsets, const In<std::uint8_t>& bytes) {
  if (offsets.size() != indices.size() + 1) refuse("names: indices and offsets differ in length");
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  const auto name_of = [&](std::size_t n) {
    const std::int64_t begin = offsets.data()[n], end = offsets.data()[n + 1];
    if (begin < 0 || end < begin || end > static_cast<std::int64_t>(bytes.size())) {
      refuse("names: offsets must rise within the bytes");
    }
    return std::string_view(text + begin, static_cast<std::size_t>(end - begin));
  };
  constexpr std::size_t ahead = 8;  // names: by then their buckets have arrived
  for (std::size_t n = 0; n < indices.size(); ++n) {
    if (n + ahead < indices.size()) names.prefetch(name_of(n + ahead));
    const std::string_view name = name_of(n);
    if (names.add(indices.data()[n], name)) continue;
    const std::uint32_t* index = names.find(name);
    if (!index || *index != indices.data()[n]) return n;
  }
  return indices.size();
}

}  // namespace pqr::bind
