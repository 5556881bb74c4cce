// from_chars of csrc/platform beside that of the standard library, over texts on stdin: prints the
// first that they read differently, and how many there were. Built with PQR_STRTOD.

#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "platform/from_chars.hpp"

namespace {

template <class Float>
bool is_read_the_same(const std::string& text) {
  const char *const begin = text.data(), *const end = begin + text.size();
  Float own = 7, standard = 7;
  const auto found = pqr::from_chars(begin, end, own);
  const auto wanted = std::from_chars(begin, end, standard);
  return found.ec == wanted.ec && found.ptr == wanted.ptr &&
         std::memcmp(&own, &standard, sizeof own) == 0;
}

}  // namespace

int main() {
  std::size_t count = 0;
  for (std::string text; std::getline(std::cin, text); ++count) {
    if (!is_read_the_same<float>(text) || !is_read_the_same<double>(text)) {
      std::printf("differs: %s\n", text.c_str());
      return 1;
    }
  }
  std::printf("%zu texts\n", count);
}
