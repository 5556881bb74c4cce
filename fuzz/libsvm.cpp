// The reader of libsvm text against hostile bytes. The first two bytes of an input choose how the
// rest is read. Whatever it is, reading it whole, in pieces, and by the slow reference must agree,
// rows must keep their promises, and what is formatted must parse to the same bits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bind/messages.hpp"
#include "parse.hpp"
#include "reference.hpp"
#include "row.hpp"

namespace {

struct Options {
  pqr::Loss loss;
  bool skip, last;
  std::int64_t first_line;
  std::size_t piece;  // bytes that arrive at a time; 0: a line at a time
};

// In a corpus file: '@' plus 1 clicks, 2 skip, 4 last, 8 not from line 1, 16 line by line, 32
// counts; then the size of a piece, less one.
Options options_of(const std::uint8_t* data) {
  const unsigned bits = data[0];
  const pqr::Loss other = (bits & 32) != 0 ? pqr::Loss::poisson : pqr::Loss::squared;
  return {(bits & 1) != 0 ? pqr::Loss::logistic : other, (bits & 2) != 0, (bits & 4) != 0,
          (bits & 8) != 0 ? std::int64_t{1} << 40 : 1,
          (bits & 16) != 0 ? 0 : std::size_t{data[1]} + 1};
}

struct Outcome {
  pqr::RowBuffer rows;
  std::vector<pqr::BadRow> bad;
  std::size_t consumed = 0;
  std::int64_t lines = 0;
};

void expect(bool good, const char* promise) {
  if (good) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// Reads on from what `outcome` has consumed, in memory that ends where the text ends.
void read_on(std::string_view text, bool last, const Options& options, Outcome& outcome) {
  const std::string_view rest = text.substr(outcome.consumed);
  const std::unique_ptr<char[]> exact(new char[rest.size()]);
  std::copy(rest.begin(), rest.end(), exact.get());
  const std::size_t known = outcome.bad.size();
  const pqr::Parsed parsed =
      pqr::parse_libsvm(exact.get(), rest.size(), last, options.loss, options.skip,
                        options.first_line + outcome.lines, outcome.rows, outcome.bad);
  expect(parsed.consumed <= rest.size(), "no more is consumed than was given");
  for (std::size_t b = known; b < outcome.bad.size(); ++b) {
    outcome.bad[b].offset += outcome.consumed;
  }
  outcome.consumed += parsed.consumed;
  outcome.lines += parsed.lines;
}

Outcome read_whole(std::string_view text, const Options& options) {
  Outcome outcome;
  read_on(text, options.last, options, outcome);
  return outcome;
}

Outcome read_in_pieces(std::string_view text, const Options& options) {
  const std::size_t piece = std::max(options.piece, text.size() / 8);  // few enough to be quick
  Outcome outcome;
  for (std::size_t end = 0; end < text.size() && (options.skip || outcome.bad.empty());) {
    const std::size_t newline = std::min(text.find('\n', end), text.size() - 1);
    end = options.piece == 0 ? newline + 1 : std::min(text.size(), end + piece);
    read_on(text.substr(0, end), options.last && end == text.size(), options, outcome);
  }
  return outcome;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool same_rows(const pqr::RowBuffer& a, const pqr::RowBuffer& b) {
  return same_bits(a.indptr, b.indptr) && same_bits(a.indices, b.indices) &&
         same_bits(a.values, b.values) && same_bits(a.labels, b.labels) &&
         same_bits(a.weights, b.weights);
}

bool same_bad(const pqr::BadRow& a, const pqr::BadRow& b) {
  return a.kind == b.kind && a.line == b.line && a.byte == b.byte && a.offset == b.offset &&
         a.length == b.length;
}

void check_pieces(const Outcome& whole, const Outcome& pieces) {
  expect(same_rows(whole.rows, pieces.rows), "pieces give the rows of the whole");
  expect(same_bits(whole.rows.lines, pieces.rows.lines), "pieces give the lines of the whole");
  expect(whole.consumed == pieces.consumed, "pieces consume what the whole consumes");
  expect(whole.lines == pieces.lines, "pieces count the lines of the whole");
  expect(std::equal(whole.bad.begin(), whole.bad.end(), pieces.bad.begin(), pieces.bad.end(),
                    same_bad),
         "pieces have the bad rows of the whole");
}

void check_rows(const Outcome& outcome, const Options& options) {
  const pqr::RowBuffer& rows = outcome.rows;
  const std::size_t size = rows.rows();
  expect(rows.indptr.size() == size + 1 && rows.weights.size() == size &&
             rows.lines.size() == size && rows.values.size() == rows.indices.size() &&
             rows.indptr.back() == static_cast<std::int64_t>(rows.indices.size()),
         "arrays fit together");
  for (std::size_t r = 0; r < size; ++r) {
    expect(pqr::is_good(rows.view()[r]), "rows are canonical and finite");
    expect(pqr::is_weight(rows.weights[r]), "weights are finite and not negative");
    expect(std::isfinite(rows.labels[r]), "labels are finite");
    expect(options.loss != pqr::Loss::logistic || rows.labels[r] == 0.0 || rows.labels[r] == 1.0,
           "clicks are 0 or 1");
    expect(options.loss != pqr::Loss::poisson || rows.labels[r] >= 0.0, "counts are not negative");
    expect(rows.lines[r] >= options.first_line &&
               rows.lines[r] < options.first_line + outcome.lines &&
               (r == 0 || rows.lines[r] > rows.lines[r - 1]),
           "rows know their lines");
  }
}

void check_bad(std::string_view text, const Outcome& outcome, const Options& options) {
  expect(options.skip || outcome.bad.size() <= 1, "the first bad row ends the parse");
  const std::int64_t end = options.first_line + outcome.lines + (options.skip ? 0 : 1);
  for (const pqr::BadRow& bad : outcome.bad) {
    expect(static_cast<std::size_t>(bad.kind) < pqr::bind::bad_messages.size(), "a kind has a message");
    expect(bad.line >= options.first_line && bad.line < end, "a bad row knows its line");
    expect(bad.offset <= text.size() && bad.length <= text.size() - bad.offset,
           "a bad row lies in the text");
    expect(bad.byte >= 1 && bad.byte <= static_cast<std::int64_t>(bad.length) + 1,
           "what is wrong lies in the row");
    expect(bad.offset == 0 || text[bad.offset - 1] == '\n', "a bad row starts a line");
    const std::string_view row = text.substr(bad.offset, bad.length);
    expect(row.find('\n') == std::string_view::npos, "a bad row is one line");
  }
}

bool same_row(const reference::Row& row, const pqr::RowBuffer& rows, std::size_t r) {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (const auto& [index, value] : row.features) {
    indices.push_back(index);
    values.push_back(value);
  }
  const pqr::Row found = rows.view()[r];
  return same_bits(indices, {found.indices, found.indices + found.size}) &&
         same_bits(values, {found.values, found.values + found.size}) &&
         same_bits<double>({row.label}, {rows.labels[r]}) &&
         same_bits<float>({row.weight}, {rows.weights[r]});
}

// What is wrong is in the token that the reference refuses; a bar that tells Vowpal Wabbit's text may
// be anywhere.
void check_place(const pqr::BadRow& bad, std::pair<std::size_t, std::size_t> token) {
  const auto at = static_cast<std::size_t>(bad.byte) - 1;
  expect((at >= token.first && at <= token.second) || bad.kind == pqr::Bad::looks_like_vw,
         "what is wrong lies in the token that is");
}

// Walks the lines; every row and every bad row must be the next one that the parser found.
void check_reference(std::string_view text, const Outcome& outcome, const Options& options) {
  std::size_t at = 0, row = 0, bad = 0;
  std::int64_t line = options.first_line;
  while (at < text.size() && (options.skip || outcome.bad.empty() || bad == 0)) {
    const std::size_t newline = text.find('\n', at);
    if (newline == std::string_view::npos && !options.last) break;
    const std::string_view given = text.substr(at, newline - at);
    const std::vector<std::string> tokens = reference::read_line(given, line == 1);
    std::size_t token = 0;
    const auto read =
        tokens.empty() ? reference::Row{} : reference::read_row(tokens, options.loss, token);
    if (!read) {
      expect(bad < outcome.bad.size() && outcome.bad[bad].line == line, "a bad row is noticed");
      if (token < tokens.size()) {
        check_place(outcome.bad[bad], reference::place_of(given, line == 1, token));
      }
      ++bad;
      if (!options.skip) break;
    } else if (!tokens.empty()) {
      expect(row < outcome.rows.rows() && outcome.rows.lines[row] == line, "a good row is read");
      expect(same_row(*read, outcome.rows, row), "a row is what the reference reads");
      ++row;
    }
    at = newline == std::string_view::npos ? text.size() : newline + 1;
    ++line;
  }
  expect(row == outcome.rows.rows() && bad == outcome.bad.size(), "nothing else is found");
  expect(at == outcome.consumed && line - options.first_line == outcome.lines,
         "whole lines are consumed and counted");
}

void check_round_trip(const pqr::RowBuffer& rows, pqr::Loss loss) {
  const std::string text = pqr::format_libsvm(rows.view());
  const Outcome again = read_whole(text, {loss, false, true, 1, 0});
  expect(again.bad.empty() && again.consumed == text.size(), "formatted rows are good rows");
  expect(same_rows(rows, again.rows), "formatted rows parse to the same bits");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Options options = options_of(data);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Outcome whole = read_whole(text, options);
  check_rows(whole, options);
  check_bad(text, whole, options);
  check_pieces(whole, read_in_pieces(text, options));
  check_reference(text, whole, options);
  check_round_trip(whole.rows, options.loss);
  return 0;
}
