// Vowpal Wabbit text to rows of named features. Nothing here does I/O or throws on bad input, and
// nothing reads past the end of the text it is given.
//
//   [label [importance]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...
//
// A token that begins with ' or touches the first | is a tag. The feature f of namespace n is
// called `n=f`; without a namespace `f`, without a name of its own `n`. Blank lines are passed
// over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coding.hpp"

namespace pqr {

enum class BadVw : std::uint8_t {
  no_bar,
  label_not_number,
  importance_wrong,
  base_given,
  scale_wrong,
  value_wrong,
  product_too_large,
  feature_nameless,
  control_byte,
  line_too_long,
};

// The messages, in the order of BadVw; {} stands for the offending text.
inline constexpr std::array bad_vw_messages{
    "expected '|' before the features; a row is 'label |namespace feature:value ...'",
    "label {} is not a finite number",
    "importance {} is not a finite number from 0 on",
    "expected a tag or '|', found {}: initial predictions are not supported",
    "scale {} of a namespace is not a finite 32-bit float",
    "value {} is not a finite 32-bit float",
    "the value of {} and the scale of its namespace multiply to more than a 32-bit float can hold",
    "expected a name before {}, as neither the feature nor its namespace has one",
    "control byte in {}; is this a text file?",
    "the line is longer than 64 MiB",
};
static_assert(bad_vw_messages.size() == static_cast<std::size_t>(BadVw::line_too_long) + 1);

struct BadVwRow {
  BadVw kind;
  std::int64_t line;   // from 1, as counted from first_line
  std::int64_t byte;   // from 1 within the line: where the offending text starts
  std::size_t offset;  // the row's bytes in the text, without its line end
  std::size_t length;
};

// Row r has the features whose codes, into the names, and values are from first[r] to before
// first[r + 1]. A row without a label has NaN.
struct VwRows {
  Coding names;
  std::vector<std::int32_t> codes;
  std::vector<float> values;
  std::vector<std::int64_t> first{0};
  std::vector<double> labels;
  std::vector<float> weights;
  std::vector<std::int64_t> lines;
  std::vector<BadVwRow> bad;
  std::int64_t line_count = 0;
};

// The rows of whole lines; the last one needs no newline. Bad rows are left out and noted; without
// `skip` the first one ends the parse.
VwRows parse_vw(const char* text, std::size_t size, bool skip, std::int64_t first_line);

}  // namespace pqr
