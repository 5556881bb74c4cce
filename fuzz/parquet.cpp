// Pages of Parquet against hostile bytes. Whatever they are, codes have texts, reading them at once
// and in pieces agrees, and texts lie where they say.

#include "parquet.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void expect(bool good, const char* promise) {
  if (good) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

void check_headers(pqr::Bytes bytes) {
  while (bytes.at < bytes.end) {
    pqr::PageHeader page;
    if (!page.read(bytes)) return;
    expect(page.size >= 0 && bytes.skip(static_cast<std::uint64_t>(page.size)), "a page lies here");
  }
}

void check_codes(pqr::Bytes page, std::size_t values, bool nullable, std::size_t texts) {
  pqr::CodesOfPage whole, cut;
  if (!whole.open(page, values, nullable, texts)) return;
  std::vector<std::int32_t> codes(values), pieces(values);
  const bool good = whole.read(codes.data(), values);
  expect(cut.open(page, values, nullable, texts), "a page that opens once opens again");
  bool good_too = true;
  for (std::size_t at = 0, size = 1; at < values && good_too; at += size, size = size * 2 + 1) {
    size = std::min(size, values - at);
    good_too = cut.read(pieces.data() + at, size);
  }
  expect(good == good_too, "pieces are as good as the whole");
  if (!good) return;
  expect(codes == pieces, "the same codes in pieces");
  for (const std::int32_t code : codes) {
    expect(code >= (nullable ? -1 : 0) && code < static_cast<std::int64_t>(texts),
           "codes have texts");
  }
}

void check_texts(pqr::Bytes page, std::size_t count) {
  std::vector<std::int32_t> ends;
  std::vector<std::uint8_t> bytes;
  if (!pqr::split_texts(page, count, ends, bytes)) return;
  expect(ends.size() == count + 1 && static_cast<std::size_t>(ends.back()) == bytes.size(),
         "all texts are there");
  expect(std::is_sorted(ends.begin(), ends.end()), "texts follow each other");
}

}  // namespace

// Two bytes say how many cells and texts there are, and whether cells may be missing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::vector<std::uint8_t> exact(data + 2, data + size);  // memory that ends with the bytes
  const pqr::Bytes bytes{exact.data(), exact.data() + exact.size()};
  const std::size_t values = data[0] * 8u, texts = data[1] >> 1;
  check_headers(bytes);
  check_codes(bytes, values, data[1] & 1, texts);
  check_texts(bytes, texts);
  return 0;
}
