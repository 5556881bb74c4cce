// The reader of Vowpal Wabbit text against hostile bytes. Whatever they are, reading them whole and
// line by line must agree, rows must keep their promises, and bad rows must lie where they say.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vw.hpp"

namespace {

void expect(bool good, const char* promise) {
  if (good) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// In memory that ends where the text ends.
pqr::VwRows read(std::string_view text, bool skip, std::int64_t first_line) {
  const std::unique_ptr<char[]> exact(new char[text.size()]);
  std::copy(text.begin(), text.end(), exact.get());
  return pqr::parse_vw(exact.get(), text.size(), skip, first_line);
}

std::string_view name(const pqr::Coding& names, std::int32_t code) {
  const auto at = static_cast<std::size_t>(code);
  return {reinterpret_cast<const char*>(names.bytes.data()) + names.offsets[at],
          static_cast<std::size_t>(names.offsets[at + 1] - names.offsets[at])};
}

void check_rows(const pqr::VwRows& rows) {
  const std::size_t size = rows.labels.size();
  expect(rows.first.size() == size + 1 && rows.weights.size() == size && rows.lines.size() == size,
         "arrays fit together");
  expect(rows.codes.size() == rows.values.size() &&
             rows.first.back() == static_cast<std::int64_t>(rows.codes.size()),
         "all features belong to rows");
  for (std::size_t r = 0; r < size; ++r) {
    expect(rows.first[r] <= rows.first[r + 1], "rows follow each other");
    expect(!std::isinf(rows.labels[r]), "a label is finite or missing");
    expect(rows.weights[r] >= 0.0f && std::isfinite(rows.weights[r]), "a weight is good");
    expect(r == 0 || rows.lines[r] > rows.lines[r - 1], "lines rise");
  }
  for (std::size_t n = 0; n < rows.codes.size(); ++n) {
    const auto most = static_cast<std::int32_t>(rows.names.offsets.size()) - 1;
    expect(rows.codes[n] >= 0 && rows.codes[n] < most, "every feature has a name");
    expect(!name(rows.names, rows.codes[n]).empty(), "no name is empty");
    expect(std::isfinite(rows.values[n]), "values are finite");
  }
}

void check_bad(const pqr::VwRows& rows, std::string_view text) {
  for (const pqr::BadVwRow& bad : rows.bad) {
    expect(bad.offset + bad.length <= text.size(), "a bad row lies in the text");
    expect(bad.byte >= 1 && static_cast<std::size_t>(bad.byte) <= bad.length + 1,
           "what is wrong lies in its row");
  }
}

// What a line says on its own must be what it says among others.
void check_lines(const pqr::VwRows& whole, std::string_view text) {
  std::size_t row = 0, wrong = 0;
  std::int64_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const pqr::VwRows one = read(text.substr(begin, end - begin), true, line);
    expect(one.line_count == 1 && one.labels.size() + one.bad.size() <= 1, "a line is one row");
    wrong += one.bad.size();
    for (std::size_t n = 0; n < one.codes.size(); ++n) {
      const std::size_t at = static_cast<std::size_t>(whole.first[row]) + n;
      expect(name(one.names, one.codes[n]) == name(whole.names, whole.codes[at]), "same names");
      expect(std::memcmp(&one.values[n], &whole.values[at], sizeof(float)) == 0, "same values");
    }
    if (!one.labels.empty()) expect(whole.lines[row++] == line, "same lines");
    begin = end;
  }
  expect(row == whole.labels.size() && wrong == whole.bad.size(), "the same rows line by line");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const pqr::VwRows whole = read(text, true, 1);
  check_rows(whole);
  check_bad(whole, text);
  check_lines(whole, text);
  const pqr::VwRows stopped = read(text, false, 1);
  check_rows(stopped);
  expect(stopped.bad.size() <= 1 && stopped.bad.empty() == whole.bad.empty(), "stops at the first");
  return 0;
}
