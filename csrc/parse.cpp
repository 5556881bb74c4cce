#include "parse.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "number.hpp"
#include "ones.hpp"

namespace pqr {
namespace {

enum class Found : std::uint8_t { nothing, row, bad };

// Reads one line at a time. The steps return where they stopped, or nullptr after
// noting what is wrong and where.
class LineReader {
 public:
  LineReader(const char* limit, Loss loss) : limit_(limit), loss_(loss) {}

  double label = 0.0;
  float weight = 1.0f;
  std::vector<std::uint32_t> indices;  // only the first `size` of them, and of the values
  std::vector<float> values;
  std::size_t size = 0;
  Bad kind = Bad::label_not_number;
  const char* where = nullptr;

  Found read(const char* begin, const char* end) {
    end_ = end;
    where = skip_separators(begin, end);
    if (at_end(where)) return Found::nothing;
    const char* const row = where;
    const char* const p = read_label(row);
    if (p != nullptr && read_features(p)) return Found::row;
    look_closer(row);
    return Found::bad;
  }

  Found reject_length(const char* begin) {
    fail(Bad::line_too_long, begin);
    return Found::bad;
  }

 private:
  const char* const limit_;
  const Loss loss_;
  const char* end_ = nullptr;
  OnesReader ones_;

  bool at_end(const char* p) const { return p == end_ || *p == '#'; }

  const char* fail(Bad what, const char* at) {
    kind = what;
    where = at;
    return nullptr;
  }

  const char* read_label(const char* p) {
    const bool digit = is_digit(*p) && ends_token(p + 1, end_);  // nearly always
    const auto number = digit ? Number<double>{static_cast<double>(*p - '0'), Trouble::none, p + 1}
                              : read_number<double>(p, end_);
    if (number.trouble == Trouble::not_number) return fail(Bad::label_not_number, p);
    if (number.trouble != Trouble::none) return fail(Bad::label_not_finite, p);
    const bool weighted = number.next != end_ && *number.next == ':';
    if (!weighted && !ends_token(number.next, end_)) return fail(Bad::label_not_number, p);
    if (!takes(loss_, number.value)) return fail(Bad::label_unfit, p);
    label = kept(loss_, number.value);
    weight = 1.0f;
    return weighted ? read_weight(number.next + 1) : number.next;
  }

  const char* read_weight(const char* p) {
    const Number<float> number = read_number<float>(p, end_);
    if (number.trouble == Trouble::not_number) return fail(Bad::weight_not_number, p);
    if (number.trouble == Trouble::not_finite) return fail(Bad::weight_not_finite, p);
    if (number.trouble == Trouble::too_large) return fail(Bad::weight_too_large, p);
    if (!ends_token(number.next, end_)) return fail(Bad::weight_not_number, p);
    if (number.value < 0.0f) return fail(Bad::weight_negative, p);
    weight = number.value;
    return number.next;
  }

  bool read_features(const char* p) {
    const std::size_t most = static_cast<std::size_t>(end_ - p) / 4 + 1;  // " 1:1" is the shortest
    if (indices.size() < most) {
      indices.resize(most);
      values.resize(most);
    }
    size = 0;
    bool tries_ones = end_ - p >= 2 && end_[-2] == ':' && end_[-1] == '1';
    for (p = skip_separators(p, end_); !at_end(p); p = skip_separators(p, end_)) {
      if (tries_ones) p = read_ones(p);
      if (ends_token(p, end_)) continue;
      p = *p == 'q' ? skip_query(p) : read_feature(p);
      if (p == nullptr) return false;
      tries_ones = size > 0 && values[size - 1] != 1.0f;  // after it, a run may begin
    }
    return true;
  }

  const char* read_ones(const char* p) {
    const auto run = ones_.read(p, end_, limit_, indices.data() + size, values.data() + size);
    size += run.count;
    return run.next;
  }

  const char* read_feature(const char* p) {
    p = read_index(p, indices[size]);
    if (p != nullptr) p = read_value(p, values[size]);
    ++size;
    return p;
  }

  const char* skip_query(const char* p) {
    if (end_ - p < 4 || std::memcmp(p, "qid:", 4) != 0) return fail(Bad::index_not_number, p);
    for (; !ends_token(p, end_); ++p) {
      if (is_control(*p)) return fail(Bad::control_byte, p);
    }
    return p;
  }

  // Ends after the colon.
  const char* read_index(const char* const begin, std::uint32_t& index) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    const char* p = begin;
    std::uint64_t number = 0;
    if (limit_ - p >= 8) {
      const Digits digits = leading_digits(p);
      p += digits.count;
      number = digits.number;
    }
    for (; p != end_ && is_digit(*p); ++p) {
      if (number <= most) number = number * 10 + static_cast<unsigned>(*p - '0');
    }
    if (p == begin || p == end_ || *p != ':') return fail(bad_index(begin, p), begin);
    if (number > most) return fail(Bad::index_too_large, begin);
    index = static_cast<std::uint32_t>(number);
    return p + 1;
  }

  Bad bad_index(const char* begin, const char* p) const {
    if (p != begin) return ends_token(p, end_) ? Bad::colon_missing : Bad::index_not_number;
    const bool negative = *p == '-' && p + 1 != end_ && is_digit(p[1]);
    return negative ? Bad::index_negative : Bad::index_not_number;
  }

  const char* read_value(const char* p, float& value) {
    if (p != end_ && *p == '1' && (p + 1 == end_ || p[1] == ' ')) {
      value = 1.0f;
      return p + 1;
    }
    if (ends_token(p, end_)) return fail(Bad::value_missing, p);
    const Number<float> number = read_number<float>(p, end_);
    if (number.trouble == Trouble::not_number) return fail(Bad::value_not_number, p);
    if (number.trouble == Trouble::not_finite) return fail(Bad::value_not_finite, p);
    if (number.trouble == Trouble::too_large) return fail(Bad::value_too_large, p);
    if (!ends_token(number.next, end_)) return fail(Bad::value_trailing, number.next);
    value = number.value;
    return number.next;
  }

  // A row is bad: finds out whether it is binary, or another format.
  const char* look_closer(const char* row) {
    const char* const token = token_end(where, end_);
    const char* const control = std::find_if(where, token, is_control);
    if (control != token) return fail(Bad::control_byte, control);
    const bool no_label = kind == Bad::label_not_number;
    if (!no_label && kind != Bad::index_not_number && kind != Bad::colon_missing) return nullptr;
    const char* const comment = std::find(row, end_, '#');
    const char* const bar = std::find(row, comment, '|');
    if (bar != comment) return fail(Bad::looks_like_vw, bar);
    const char* const comma = std::find(row, token, ',');
    if (no_label && comma != token) return fail(Bad::looks_like_csv, comma);
    return nullptr;
  }
};

bool add_row(LineReader& reader, std::int64_t line, RowBuffer& rows) {
  rows.push(reader.indices.data(), reader.values.data(), reader.size);
  const bool good = rows.end_row(reader.label, reader.weight, line);
  if (!good) reader.kind = Bad::sum_not_finite;
  return good;
}

// Some editors begin a text file with a byte order mark.
bool begins_with_mark(const char* begin, const char* end) {
  return end - begin >= 3 && std::memcmp(begin, "\xef\xbb\xbf", 3) == 0;
}

template <class T>
void append_number(T number, std::string& out) {
  char digits[32];  // the longest shortest form of a double has 24 characters
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

Parsed parse_libsvm(const char* text, std::size_t size, bool last, Loss loss, bool skip,
                    std::int64_t first_line, RowBuffer& rows, std::vector<BadRow>& bad) {
  const char* const limit = text + size;
  LineReader reader(limit, loss);
  if (rows.rows() == 0) rows.reserve(size / 64, size / 6);  // bytes of a short row, and of "421:1 "
  std::int64_t line = first_line;
  const char* begin = text;
  while (begin != limit) {
    const auto left = static_cast<std::size_t>(limit - begin);
    const auto* const newline = static_cast<const char*>(std::memchr(begin, '\n', left));
    if (newline == nullptr && !last) break;
    const char* end = newline == nullptr ? limit : newline;
    const bool too_long = static_cast<std::size_t>(end - begin) > max_line_bytes;
    if (end != begin && end[-1] == '\r') --end;
    const std::size_t mark = line == 1 && begins_with_mark(begin, end) ? 3 : 0;
    Found found = too_long ? reader.reject_length(begin) : reader.read(begin + mark, end);
    if (found == Found::row && !add_row(reader, line, rows)) found = Found::bad;
    if (found == Found::bad) {
      bad.push_back({reader.kind, line, reader.where - begin + 1,
                     static_cast<std::size_t>(begin - text),
                     static_cast<std::size_t>(end - begin)});
      if (!skip) break;
    }
    begin = newline == nullptr ? limit : newline + 1;
    ++line;
  }
  return {static_cast<std::size_t>(begin - text), line - first_line};
}

std::string format_libsvm(const Rows& rows) {
  std::string out;
  for (std::size_t r = 0; r < rows.size; ++r) {
    append_number(rows.labels[r], out);
    if (rows.weights[r] != 1.0f) {
      out += ':';
      append_number(rows.weights[r], out);
    }
    const Row row = rows[r];
    for (std::size_t i = 0; i < row.size; ++i) {
      out += ' ';
      append_number(row.indices[i], out);
      out += ':';
      append_number(row.values[i], out);
    }
    out += '\n';
  }
  return out;
}

}  // namespace pqr
