// Pages of Parquet from Python.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../parquet.hpp"
#include "arrays.hpp"

namespace pqr::bind {

inline Bytes bytes_of(const In<std::uint8_t>& data) {
  return {data.data(), data.data() + data.size()};
}

// For each page of a column with `values` cells: its kind, encoding, encoding of levels, values,
// size in memory, and where it begins and ends.
inline nb::list page_headers(const In<std::uint8_t>& chunk, std::int64_t values) {
  nb::list found;
  Bytes bytes = bytes_of(chunk);
  while (values > 0) {
    PageHeader page;
    if (!page.read(bytes) || page.values < 0)
      refuse("a page header is damaged, or of another kind");
    const std::int64_t begin = bytes.at - chunk.data();
    found.append(nb::make_tuple(page.kind, page.encoding, page.level_encoding, page.values,
                                page.size_in_memory, begin, begin + page.size));
    if (page.kind == PageHeader::data) values -= page.values;
    bytes.at += page.size;
  }
  return found;
}

// The page is kept until the next one.
class HeldCodes {
 public:
  void open(const In<std::uint8_t>& page, std::size_t values, bool nullable, std::size_t texts) {
    page_ = page;
    if (!codes_.open(bytes_of(page_), values, nullable, texts)) refuse("a data page is damaged");
  }
  std::size_t left() const { return codes_.left(); }

  // Codes from `first` on, to the end of the page or of `out`; returns where they end.
  std::size_t read(const InOut<std::int32_t>& out, std::size_t first) {
    if (first > out.size()) refuse("first is beyond the end");
    const std::size_t count = std::min(codes_.left(), out.size() - first);
    bool good = false;
    {
      nb::gil_scoped_release release;
      good = codes_.read(out.data() + first, count);
    }
    if (!good) refuse("a data page is damaged: codes are missing, or have no text");
    return first + count;
  }

 private:
  In<std::uint8_t> page_;
  CodesOfPage codes_;
};

inline nb::tuple page_texts(const In<std::uint8_t>& page, std::size_t count) {
  std::vector<std::int32_t> ends;
  std::vector<std::uint8_t> bytes;
  if (!split_texts(bytes_of(page), count, ends, bytes)) refuse("a dictionary page is damaged");
  return nb::make_tuple(give(std::move(ends)), give(std::move(bytes)));
}

}  // namespace pqr::bind
