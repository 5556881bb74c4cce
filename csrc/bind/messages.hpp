// Messages about bad and refused rows.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "../model.hpp"
#include "../parse.hpp"
#include "../row.hpp"

namespace pqr::bind {

// The messages, in the order of Bad; {} stands for the offending text.
inline constexpr std::array bad_messages{
    "the '|' looks like Vowpal Wabbit text; a libsvm row is 'label index:value index:value ...'",
    "the ',' looks like CSV, or several labels; a libsvm row is 'label index:value ...'",
    "label {} is not a number",
    "label {} is not finite",
    "label {} ",  // and what the loss wants
    "weight {} is not a number",
    "weight {} is not finite",
    "weight {} is negative",
    "weight {} is too large for a 32-bit float",
    "index {} is not a whole number",
    "index {} is negative (indices go from 0 to 4294967295)",
    "index {} is too large (indices go from 0 to 4294967295)",
    "expected ':' and a value after index {}",
    "expected a value after ':'",
    "value {} is not a number",
    "value {} is not finite",
    "value {} is too large for a 32-bit float",
    "unexpected {} after a value",
    "control byte in {}; is this a text file?",
    "the values of a repeated index add up to more than a 32-bit float can hold",
    "the line is longer than 64 MiB",
};
static_assert(bad_messages.size() == static_cast<std::size_t>(Bad::line_too_long) + 1);

inline constexpr const char* too_large =
    "its values are too large for 32-bit floats, or its label or weight is; scale them down";

// Why a model refuses a row, in prediction or in learning.
template <class Core>
std::string why_refused(const Core&, const Row&, bool) {
  return too_large;
}
inline std::string why_refused(const Model& model, const Row& row, bool learns) {
  const std::size_t pairs = model.pairs_in(row, learns);
  if (pairs <= model.max_pairs()) return too_large;
  return "its high features make " + std::to_string(pairs) +
         " pairs, more than max_pairs_per_row=" + std::to_string(model.max_pairs()) +
         "; raise it (a pair takes up to 80 bytes of memory), or use a model with fewer high "
         "features";
}

}  // namespace pqr::bind
