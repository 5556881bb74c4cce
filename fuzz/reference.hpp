// The libsvm format once more, slowly and in another way: lines and tokens are strings, numbers
// are read by strtod. What it accepts, and the bits it gets, are what parse.cpp must give.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loss.hpp"

namespace reference {

struct Row {
  double label = 0.0;
  float weight = 1.0f;
  std::map<std::uint32_t, float> features;
};

inline std::size_t digits_from(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return end - at;
}

// [+-] digits [. digits] [e [+-] digits], with a digit somewhere before the e.
inline bool is_decimal(const std::string& text) {
  std::size_t at = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  std::size_t digits = digits_from(text, at);
  at += digits;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction = digits_from(text, at + 1);
    digits += fraction;
    at += 1 + fraction;
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t exponent = digits_from(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
}

inline std::optional<double> read_double(const std::string& text) {
  const double value = is_decimal(text) ? std::strtod(text.c_str(), nullptr) : INFINITY;
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

inline std::optional<float> read_float(const std::string& text) {
  const float value = is_decimal(text) ? std::strtof(text.c_str(), nullptr) : INFINITY;
  return std::isfinite(value) ? std::optional<float>(value) : std::nullopt;
}

inline std::optional<std::uint32_t> read_index(const std::string& text) {
  if (text.empty() || digits_from(text, 0) != text.size()) return std::nullopt;
  const std::string digits = text.substr(std::min(text.find_first_not_of('0'), text.size() - 1));
  if (digits.size() > 10) return std::nullopt;
  const std::uint64_t index = std::strtoull(digits.c_str(), nullptr, 10);
  return index <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(index)) : std::nullopt;
}

inline std::vector<std::string> tokens_of(const std::string& line) {
  std::vector<std::string> tokens;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    tokens.push_back(line.substr(at, end - at));
    at = end;
  }
  return tokens;
}

inline bool read_label(const std::string& token, pqr::Loss loss, Row& row) {
  const std::size_t colon = token.find(':');
  const auto label = read_double(token.substr(0, colon));
  const auto weight = colon == std::string::npos ? 1.0f : read_float(token.substr(colon + 1));
  if (!label || !weight || *weight < 0.0f) return false;
  const bool clicks = loss == pqr::Loss::logistic;
  if (loss == pqr::Loss::poisson && *label < 0.0) return false;
  if (clicks && *label != 0.0 && *label != 1.0 && *label != -1.0) return false;
  row.label = clicks ? (*label == 1.0 ? 1.0 : 0.0) : *label;
  row.weight = *weight;
  return true;
}

inline bool is_text(const std::string& token) {
  return std::none_of(token.begin(), token.end(), [](unsigned char c) { return std::iscntrl(c); });
}

// The sums of repeated features, taken in order of value; false when one is too large.
inline bool sum_up(std::map<std::uint32_t, std::vector<float>>& given, Row& row) {
  for (auto& [index, values] : given) {
    std::sort(values.begin(), values.end());
    double sum = 0.0;
    for (const float value : values) sum += value;
    const auto rounded = static_cast<float>(sum);
    if (!std::isfinite(rounded)) return false;
    if (rounded != 0.0f) row.features[index] = rounded;
  }
  return true;
}

// The row of a line that is not blank, or nothing when it is bad: then `t` is the token that is, or
// their number if the row is bad as a whole.
inline std::optional<Row> read_row(const std::vector<std::string>& tokens, pqr::Loss loss,
                                   std::size_t& t) {
  Row row;
  t = 0;
  if (!read_label(tokens[0], loss, row)) return std::nullopt;
  std::map<std::uint32_t, std::vector<float>> given;
  for (t = 1; t < tokens.size(); ++t) {
    if (tokens[t].compare(0, 4, "qid:") == 0) {
      if (!is_text(tokens[t])) return std::nullopt;
      continue;
    }
    const std::size_t colon = tokens[t].find(':');
    if (colon == std::string::npos) return std::nullopt;
    const auto index = read_index(tokens[t].substr(0, colon));
    const auto value = read_float(tokens[t].substr(colon + 1));
    if (!index || !value) return std::nullopt;
    given[*index].push_back(*value);
  }
  return sum_up(given, row) ? std::optional(row) : std::nullopt;
}

// Where a token begins and ends in the text of a line.
inline std::pair<std::size_t, std::size_t> place_of(std::string_view line, bool first,
                                                    std::size_t t) {
  std::size_t begin = 0, end = first && line.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
  for (std::size_t left = t + 1; left > 0; --left) {
    begin = line.find_first_not_of(" \t", end);
    end = std::min(line.find_first_of(" \t#", begin), line.size());
  }
  return {begin, end};
}

// The tokens of a line without its line end, byte order mark and comment.
inline std::vector<std::string> read_line(std::string_view text, bool first) {
  std::string line(text);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (first && line.compare(0, 3, "\xef\xbb\xbf") == 0) line.erase(0, 3);
  return tokens_of(line.substr(0, line.find('#')));
}

}  // namespace reference
