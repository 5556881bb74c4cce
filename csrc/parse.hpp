// libsvm text to rows and back. Nothing here does I/O or throws on bad input, and
// nothing reads past the end of the text it is given.
//
//   label[:weight] [qid:N] index:value index:value ... [# comment]
//
// Separators are spaces and tabs, lines end in LF or CRLF, blank lines and
// comments are passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loss.hpp"
#include "row.hpp"

namespace pqr {

enum class Bad : std::uint8_t {
  looks_like_vw,
  looks_like_csv,
  label_not_number,
  label_not_finite,
  label_unfit,
  weight_not_number,
  weight_not_finite,
  weight_negative,
  weight_too_large,
  index_not_number,
  index_negative,
  index_too_large,
  colon_missing,
  value_missing,
  value_not_number,
  value_not_finite,
  value_too_large,
  value_trailing,
  control_byte,
  sum_not_finite,
  line_too_long,
};

inline constexpr std::size_t max_line_bytes = std::size_t{64} << 20;  // bounds memory for a line

struct BadRow {
  Bad kind;
  std::int64_t line;   // from 1, as counted from first_line
  std::int64_t byte;   // from 1 within the line: where the offending text starts
  std::size_t offset;  // the row's bytes in the text, without its line end
  std::size_t length;
};

struct Parsed {
  std::size_t consumed;  // bytes of whole lines; the rest belongs before the next text
  std::int64_t lines;
};

// Adds the rows of whole lines to `rows`. A last line without a newline counts as whole only if
// nothing follows (`last`). Labels must fit the loss, and are stored as it keeps them. Bad
// rows are left out and noted in `bad`; without `skip` the first one ends the parse, neither
// consumed nor counted.
Parsed parse_libsvm(const char* text, std::size_t size, bool last, Loss loss, bool skip,
                    std::int64_t first_line, RowBuffer& rows, std::vector<BadRow>& bad);

// The text of rows, such that parsing it gives the same bits again.
std::string format_libsvm(const Rows& rows);

}  // namespace pqr
