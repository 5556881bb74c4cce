#include "vw.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "number.hpp"

namespace pqr {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 20;  // bounds memory for a line

bool ends_word(const char* p, const char* end) { return p == end || is_separator(*p) || *p == '|'; }

const char* word_end(const char* p, const char* end) {
  while (!ends_word(p, end)) ++p;
  return p;
}

// Reads one line at a time; a step returns false after noting what is wrong and where.
class LineReader {
 public:
  BadVw kind = BadVw::no_bar;
  const char* where = nullptr;

  explicit LineReader(VwRows& out) : out_(out) {}

  bool read(const char* begin, const char* end, std::int64_t line) {
    begin_ = begin;
    end_ = end;
    const char* const bar = std::find(begin, end, '|');
    bool good = check_bytes();
    good = good && (bar != end || fail(BadVw::no_bar, begin));
    good = good && read_label(bar) && read_namespaces(bar);
    if (!good) {
      out_.codes.resize(static_cast<std::size_t>(out_.first.back()));
      out_.values.resize(out_.codes.size());
      return false;
    }
    out_.first.push_back(static_cast<std::int64_t>(out_.codes.size()));
    out_.labels.push_back(label_);
    out_.weights.push_back(weight_);
    out_.lines.push_back(line);
    return true;
  }

  bool fail(BadVw what, const char* at) {
    kind = what;
    where = at;
    return false;
  }

 private:
  VwRows& out_;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  double label_ = 0.0;
  float weight_ = 1.0f;
  std::string name_;

  bool check_bytes() {
    const char* const control = std::find_if(begin_, end_, is_control);
    return control == end_ || fail(BadVw::control_byte, control);
  }

  // What stands before the first bar, without the tag.
  bool read_label(const char* bar) {
    label_ = std::numeric_limits<double>::quiet_NaN();
    weight_ = 1.0f;
    std::size_t tokens = 0;
    for (const char* p = skip_separators(begin_, bar); p != bar; p = skip_separators(p, bar)) {
      const char* const token = p;
      p = word_end(p, bar);
      if (*token == '\'' || p == bar) continue;  // a tag
      if (++tokens == 1) {
        const Number<double> number = read_number<double>(token, p);
        if (!is_whole(number, p)) return fail(BadVw::label_not_number, token);
        label_ = number.value;
      } else if (tokens == 2) {
        const Number<float> number = read_number<float>(token, p);
        if (!is_whole(number, p) || number.value < 0.0f) {
          return fail(BadVw::importance_wrong, token);
        }
        weight_ = number.value;
      } else {
        return fail(BadVw::base_given, token);
      }
    }
    return true;
  }

  template <class Float>
  static bool is_whole(const Number<Float>& number, const char* end) {
    return number.trouble == Trouble::none && number.next == end;
  }

  bool read_namespaces(const char* p) {
    while (p != end_) {
      ++p;  // the bar
      const char* const name = p;
      const char* const word = word_end(p, end_);
      const char* const colon = std::find(p, word, ':');
      float scale = 1.0f;
      if (colon != word) {
        const Number<float> number = read_number<float>(colon + 1, word);
        if (!is_whole(number, word)) return fail(BadVw::scale_wrong, colon + 1);
        scale = number.value;
      }
      p = read_features({name, static_cast<std::size_t>(colon - name)}, scale, word);
      if (p == nullptr) return false;
    }
    return true;
  }

  // Up to the next bar.
  const char* read_features(std::string_view space, float scale, const char* p) {
    for (p = skip_separators(p, end_); p != end_ && *p != '|'; p = skip_separators(p, end_)) {
      const char* const word = word_end(p, end_);
      if (!add(space, scale, p, word)) return nullptr;
      p = word;
    }
    return p;
  }

  bool add(std::string_view space, float scale, const char* begin, const char* end) {
    const char* colon = end;  // the last one: a name may hold others
    for (const char* p = begin; p != end; ++p) {
      if (*p == ':') colon = p;
    }
    float value = 1.0f;
    if (colon != end) {
      const Number<float> number = read_number<float>(colon + 1, end);
      if (!is_whole(number, end)) return fail(BadVw::value_wrong, colon + 1);
      value = number.value;
    }
    value *= scale;
    if (!std::isfinite(value)) return fail(BadVw::product_too_large, begin);
    if (space.empty() && colon == begin) return fail(BadVw::feature_nameless, begin);
    name_.assign(space);
    if (!space.empty() && colon != begin) name_ += '=';
    name_.append(begin, colon);
    out_.codes.push_back(out_.names.code(name_));
    out_.values.push_back(value);
    return true;
  }
};

}  // namespace

VwRows parse_vw(const char* text, std::size_t size, bool skip, std::int64_t first_line) {
  VwRows out;
  LineReader reader(out);
  const char* const limit = text + size;
  std::int64_t line = first_line;
  for (const char* begin = text; begin != limit; ++line) {
    const auto left = static_cast<std::size_t>(limit - begin);
    const auto* const newline = static_cast<const char*>(std::memchr(begin, '\n', left));
    const char* end = newline == nullptr ? limit : newline;
    const char* const next = newline == nullptr ? limit : newline + 1;
    const bool too_long = static_cast<std::size_t>(end - begin) > max_line_bytes;
    if (end != begin && end[-1] == '\r') --end;
    const bool marked = line == 1 && end - begin >= 3 && std::memcmp(begin, "\xef\xbb\xbf", 3) == 0;
    const char* const row = begin + (marked ? 3 : 0);
    bool good = !too_long || reader.fail(BadVw::line_too_long, begin);
    if (good && skip_separators(row, end) != end) good = reader.read(row, end, line);
    if (!good) {
      out.bad.push_back({reader.kind, line, reader.where - begin + 1,
                         static_cast<std::size_t>(begin - text),
                         static_cast<std::size_t>(end - begin)});
      if (!skip) break;
    }
    begin = next;
  }
  out.line_count = line - first_line;
  return out;
}

}  // namespace pqr
