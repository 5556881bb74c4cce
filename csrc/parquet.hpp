// Pages of a Parquet column whose cells are codes into a dictionary. Arrow would look up each text
// of the dictionary in a hash table of its own, for every row group.
//
// All bytes may come from a stranger: nothing is read beyond their end, and what cannot be
// understood is reported.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pqr {

struct Bytes {
  const std::uint8_t* at = nullptr;
  const std::uint8_t* end = nullptr;

  std::size_t left() const { return static_cast<std::size_t>(end - at); }

  // Seven bits a byte, the lowest first. False where it does not end.
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
      const std::uint8_t byte = *at++;
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool skip(std::uint64_t count) {
    if (count > left()) return false;
    at += count;
    return true;
  }
};

// What stands before a page, in Thrift's compact protocol. Numbers that are missing are -1.
struct PageHeader {
  enum Kind { data = 0, dictionary = 2 };
  enum Encoding { plain = 0, old_codes = 2, rle = 3, codes = 8 };
  std::int64_t kind = -1, size_in_memory = -1, size = -1;  // the last one as it is compressed
  std::int64_t values = -1, encoding = -1, level_encoding = -1;

  bool read(Bytes& bytes) {
    const bool good = fields(bytes, [&](std::uint64_t id, unsigned type) {
      if (id == 1) return number(bytes, type, kind);
      if (id == 2) return number(bytes, type, size_in_memory);
      if (id == 3) return number(bytes, type, size);
      if ((id != 5 && id != 7) || type != a_struct) return skip(bytes, type, 0);
      return fields(bytes, [&](std::uint64_t inner, unsigned inner_type) {
        if (inner == 1) return number(bytes, inner_type, values);
        if (inner == 2) return number(bytes, inner_type, encoding);
        if (inner == 3 && id == 5) return number(bytes, inner_type, level_encoding);
        return skip(bytes, inner_type, 0);
      });
    });
    return good && size_in_memory >= 0 && size >= 0 &&
           static_cast<std::size_t>(size) <= bytes.left();
  }

 private:
  enum Type : unsigned { yes = 1, no, i8, i16, i32, i64, f64, text, list, set, map, a_struct };
  static constexpr unsigned deepest = 8;

  // Each field is read by visit(id, type).
  template <class Visit>
  static bool fields(Bytes& bytes, Visit visit) {
    std::uint64_t id = 0;
    while (bytes.at < bytes.end) {
      const unsigned head = *bytes.at++;
      if (head == 0) return true;
      if (head >> 4) {
        id += head >> 4;
      } else if (std::uint64_t given = 0; bytes.varint(given)) {
        id = given >> 1;
      }
      if (!visit(id, head & 15u)) return false;
    }
    return false;
  }

  static bool number(Bytes& bytes, unsigned type, std::int64_t& value) {
    std::uint64_t coded = 0;
    if (type < i16 || type > i64 || !bytes.varint(coded)) return false;
    value = static_cast<std::int64_t>(coded >> 1) ^ -static_cast<std::int64_t>(coded & 1);
    return true;
  }

  static bool skip(Bytes& bytes, unsigned type, unsigned depth) {
    std::uint64_t size = 0;
    if (depth > deepest) return false;
    if (type == yes || type == no) return true;
    if (type == i8) return bytes.skip(1);
    if (type <= i64) return bytes.varint(size);
    if (type == f64) return bytes.skip(8);
    if (type == text) return bytes.varint(size) && bytes.skip(size);
    if (type == a_struct) {
      return fields(bytes, [&](std::uint64_t, unsigned t) { return skip(bytes, t, depth + 1); });
    }
    return false;  // page headers have no lists, sets and maps
  }
};

// Numbers of `width` bits, in runs of equal ones or packed one behind the other.
class Runs {
 public:
  Runs() = default;
  Runs(Bytes bytes, unsigned width)
      : bytes_(bytes), width_(width), mask_((std::uint64_t{1} << width) - 1) {}

  // The next numbers are `count` or fewer, which are equal or packed; 0 if there are none.
  std::size_t next(std::size_t count) {
    if (left_ == 0) begin();
    return std::min(left_, count);
  }
  bool equal() const { return !packed_; }
  std::uint32_t value() const { return value_; }
  void pass(std::size_t count) { left_ -= count; }

  // Takes so many of those that are packed; returns the largest one.
  std::uint32_t unpack(std::size_t count, std::int32_t* out) {
    std::uint32_t largest = 0;
    const auto take = [&](std::size_t size) {
      std::uint64_t word = 0;
      std::memcpy(&word, run_ + bit_ / 8, size);
      const auto value = static_cast<std::uint32_t>(word >> bit_ % 8 & mask_);
      largest = std::max(largest, value);
      *out++ = static_cast<std::int32_t>(value);
      bit_ += width_;
    };
    left_ -= count;
    const std::size_t bytes = static_cast<std::size_t>(bytes_.end - run_);
    for (; count > 0 && bit_ / 8 + 8 <= bytes; --count) take(8);
    for (; count > 0; --count) take(std::min<std::size_t>(8, bytes - bit_ / 8));
    return largest;
  }

 private:
  Bytes bytes_;
  unsigned width_ = 0;
  std::uint64_t mask_ = 0;
  std::size_t left_ = 0, bit_ = 0;
  const std::uint8_t* run_ = nullptr;  // of packed ones
  std::uint32_t value_ = 0;            // of equal ones
  bool packed_ = false;

  void begin() {
    std::uint64_t head = 0;
    if (!bytes_.varint(head)) return;
    packed_ = head & 1;
    const std::uint64_t count = head >> 1, width_in_bytes = (width_ + 7) / 8;
    if (packed_ && width_ > 0) {
      const std::uint64_t size = std::min<std::uint64_t>(bytes_.left() / width_, count) * width_;
      run_ = bytes_.at;
      bit_ = 0;
      left_ = size * 8 / width_;
      bytes_.at += size;
      return;
    }
    left_ = packed_ ? 8 * std::min<std::uint64_t>(count, 1u << 28) : count;
    packed_ = false;
    value_ = 0;
    if (bytes_.left() < width_in_bytes) {
      left_ = 0;
      return;
    }
    for (std::size_t n = 0; n < width_in_bytes; ++n) {
      value_ |= std::uint32_t{*bytes_.at++} << 8 * n;
    }
  }
};

// The codes of a data page, decompressed; -1 where a cell is missing.
class CodesOfPage {
 public:
  // False when the page cannot be understood.
  bool open(Bytes page, std::size_t values, bool nullable, std::size_t texts) {
    left_ = values;
    texts_ = texts;
    levels_ = {};
    nullable_ = nullable;
    if (nullable) {
      std::uint32_t size = 0;
      if (page.left() < sizeof size) return false;
      std::memcpy(&size, page.at, sizeof size);
      page.at += sizeof size;
      if (size > page.left()) return false;
      levels_ = Runs({page.at, page.at + size}, 1);
      page.at += size;
    }
    const unsigned width = page.left() ? *page.at++ : 0;
    if (width > 31) return false;
    codes_ = Runs(page, width);
    return true;
  }

  std::size_t left() const { return left_; }

  // The next `count` codes, of which there are as many. False when one has no text.
  bool read(std::int32_t* out, std::size_t count) {
    left_ -= count;
    if (!nullable_) return read_present(out, count);
    for (std::size_t some = 0; count > 0; out += some, count -= some) {
      some = levels_.next(count);
      if (some == 0) return false;
      if (levels_.equal()) {
        levels_.pass(some);
        if (levels_.value() == 0) {
          std::fill_n(out, some, -1);
        } else if (!read_present(out, some)) {
          return false;
        }
        continue;
      }
      levels_.unpack(some, out);
      for (std::size_t n = 0; n < some; ++n) {
        if (out[n] == 0) {
          out[n] = -1;
        } else if (!read_present(out + n, 1)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  Runs levels_, codes_;
  std::size_t left_ = 0, texts_ = 0;
  bool nullable_ = false;

  bool read_present(std::int32_t* out, std::size_t count) {
    for (std::size_t some = 0; count > 0; out += some, count -= some) {
      some = codes_.next(count);
      if (some == 0) return false;
      if (codes_.equal()) {
        codes_.pass(some);
        if (codes_.value() >= texts_) return false;
        std::fill_n(out, some, static_cast<std::int32_t>(codes_.value()));
      } else if (codes_.unpack(some, out) >= texts_) {
        return false;
      }
    }
    return true;
  }
};

// The texts of a dictionary page, each behind its length in four bytes. False when there are fewer.
inline bool split_texts(Bytes page, std::size_t count, std::vector<std::int32_t>& ends,
                        std::vector<std::uint8_t>& bytes) {
  if (page.left() > 0x7FFFFFFF || count > page.left() / 4) return false;
  ends.reserve(count + 1);
  bytes.reserve(page.left() - 4 * count);
  ends.push_back(0);
  for (std::size_t n = 0; n < count; ++n) {
    std::uint32_t size = 0;
    if (page.left() < sizeof size) return false;
    std::memcpy(&size, page.at, sizeof size);
    page.at += sizeof size;
    if (size > page.left()) return false;
    bytes.insert(bytes.end(), page.at, page.at + size);
    page.at += size;
    ends.push_back(static_cast<std::int32_t>(bytes.size()));
  }
  return true;
}

}  // namespace pqr
