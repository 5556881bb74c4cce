// What people are told of a bad row.
#pragma once

#include <array>
#include <cstddef>

#include "../parse.hpp"

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

}  // namespace pqr::bind
