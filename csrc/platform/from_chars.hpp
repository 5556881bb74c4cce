// std::from_chars of fractions where the library has none: libc++ of macOS before 26, libstdc++ 10.
// CMakeLists.txt looks, and defines PQR_STRTOD there.
#pragma once

#include <charconv>

#ifndef PQR_STRTOD

namespace pqr {
using std::from_chars;
}

#else

#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <cmath>
#include <string>
#include <system_error>
#include <type_traits>

namespace pqr {

inline const char* end_of_digits(const char* p, const char* end) {
  while (p != end && *p >= '0' && *p <= '9') ++p;
  return p;
}

// Where "12.5e-3" ends; `first` itself if no number starts there. It has no sign.
inline const char* end_of_number(const char* first, const char* end) {
  const char* p = end_of_digits(first, end);
  bool some = p != first;
  if (p != end && *p == '.') {
    const char* const fraction = p + 1;
    p = end_of_digits(fraction, end);
    some = some || p != fraction;
  }
  if (!some) return first;
  if (p != end && (*p == 'e' || *p == 'E')) {
    const char* digits = p + 1;
    if (digits != end && (*digits == '-' || *digits == '+')) ++digits;
    if (const char* const last = end_of_digits(digits, end); last != digits) p = last;
  }
  return p;
}

// Rounds correctly, as strtod() does in the locale "C", whichever the process has.
template <class Float>
std::from_chars_result from_chars(const char* first, const char* end, Float& value) {
  const char* const last = end_of_number(first, end);
  if (last == first) return {first, std::errc::invalid_argument};
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
  const std::string text(first, last);
  Float found = 0;
  if constexpr (std::is_same_v<Float, float>) {
    found = strtof_l(text.c_str(), nullptr, plain);
  } else {
    found = strtod_l(text.c_str(), nullptr, plain);
  }
  const bool is_zero =
      text.substr(0, text.find_first_of("eE")).find_first_of("123456789") == std::string::npos;
  if (std::isinf(found) || (found == 0 && !is_zero)) return {last, std::errc::result_out_of_range};
  value = found;
  return {last, std::errc{}};
}

}  // namespace pqr

#endif
