// Texts -> codes: each different text has one, in order of first appearance; an empty one has -1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "prefetch.hpp"
#include "seed.hpp"

namespace pqr {

class Coding {
 public:
  std::vector<std::int64_t> offsets{0};  // of the different texts in `bytes`
  std::vector<std::uint8_t> bytes;

  // A text whose code is wanted next: what is compared, and its hash. The bucket is prefetched.
  struct Key {
    std::string_view text;
    std::uint64_t word = 0, hash = 0;
  };
  // From where the text begins, `readable` bytes may be read, whether they belong to it or not.
  Key key(std::string_view text, std::size_t readable) const {
    Key key{text};
    if (text.empty()) return key;
    key.word = word_of(text, readable);
    key.hash = seed_.mix(text.size(), key.word);
    fetch(&buckets_[static_cast<std::size_t>(key.hash) & mask_]);
    return key;
  }

  std::int32_t code(std::string_view text) { return code(key(text, text.size())); }
  std::int32_t code(const Key& key) {
    if (key.text.empty()) return -1;
    std::size_t at = static_cast<std::size_t>(key.hash) & mask_;
    for (; buckets_[at].code >= 0; at = (at + 1) & mask_) {
      if (is_at(buckets_[at], key)) return buckets_[at].code;
    }
    const auto next = static_cast<std::int32_t>(offsets.size() - 1);
    buckets_[at] = {key.word, static_cast<std::uint32_t>(key.text.size()), next};
    bytes.insert(bytes.end(), key.text.begin(), key.text.end());
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
    if (2 * offsets.size() > buckets_.size()) grow();
    return next;
  }

 private:
  static constexpr std::size_t short_text = 8;  // whose word is all of it
  static constexpr bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

  struct Bucket {
    std::uint64_t word = 0;
    std::uint32_t size = 0;
    std::int32_t code = -1;
  };
  Seed seed_ = Seed::of_process();
  std::vector<Bucket> buckets_ = std::vector<Bucket>(1024);  // 16 kB; doubled when half are taken
  std::size_t mask_ = 1023;

  std::string_view text(std::int32_t code) const {
    const auto at = static_cast<std::size_t>(code);
    return {reinterpret_cast<const char*>(bytes.data()) + offsets[at],
            static_cast<std::size_t>(offsets[at + 1] - offsets[at])};
  }
  bool is_at(const Bucket& bucket, const Key& key) const {
    if (bucket.word != key.word || bucket.size != static_cast<std::uint32_t>(key.text.size())) {
      return false;
    }
    return key.text.size() <= short_text || text(bucket.code) == key.text;
  }

  // Of a short text all bytes, the first one lowest; of a long one a hash.
  std::uint64_t word_of(std::string_view text, std::size_t readable) const {
    const char* at = text.data();
    const std::size_t size = text.size();
    if (size > short_text) {
      std::uint64_t h = seed_.start;
      for (std::size_t i = 0; i + 8 < size; i += 8) h = seed_.mix(h, load(at + i, 8));
      return seed_.mix(h, load(at + size - 8, 8));
    }
    // At once, without a branch that depends on the size.
    if (little_endian && readable >= 8) return load(at, 8) & ~std::uint64_t{0} >> (64 - 8 * size);
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < size; ++i) {
      word |= std::uint64_t{static_cast<unsigned char>(at[i])} << 8 * i;
    }
    return word;
  }
  static std::uint64_t load(const char* at, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, size);
    return word;
  }

  void grow() {
    std::vector<Bucket> smaller(2 * buckets_.size());
    smaller.swap(buckets_);
    mask_ = buckets_.size() - 1;
    for (const Bucket& bucket : smaller) {
      if (bucket.code < 0) continue;
      std::size_t at = static_cast<std::size_t>(seed_.mix(bucket.size, bucket.word)) & mask_;
      while (buckets_[at].code >= 0) at = (at + 1) & mask_;
      buckets_[at] = bucket;
    }
  }
};

}  // namespace pqr
