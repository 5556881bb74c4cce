// Feature names <-> indices. A name is what a person calls a feature; each has
// one index and each index at most one name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "lanes.hpp"
#include "prefetch.hpp"
#include "seed.hpp"
#include "table.hpp"

namespace pqr {

class Names {
 public:
  explicit Names(const Seed& seed = Seed::of_process()) : seed_(seed) {}

  std::size_t size() const { return size_; }
  std::uint64_t next_feature() const { return next_feature_; }

  // nullptr when no feature has that name.
  const std::uint32_t* find(std::string_view name) const {
    const std::uint32_t mixed = hash(name);
    return find(name, mixed, first_like(mixed));
  }

  // The same in three steps, so that loads for many names are in flight at once: the bucket
  // where it should be, the record of the first bucket with an equal hash, and the comparison.
  std::uint32_t prefetch(std::string_view name) const {
    const std::uint32_t mixed = hash(name);
    fetch(&buckets_[mixed & mask_]);
    return mixed;
  }
  std::size_t prefetch_record(std::uint32_t mixed, std::size_t length) const {
    const std::size_t at = first_like(mixed);
    if (const std::uint32_t record = buckets_[at].record; record != none) {
      fetch(words_.data() + record);
      fetch(words_.data() + record + words_of(length) - 1);  // perhaps in the next line
    }
    return at;
  }
  const std::uint32_t* find(std::string_view name, std::uint32_t mixed, std::size_t at) const {
    const std::uint32_t record = buckets_[bucket_of(name, mixed, at)].record;
    return record == none ? nullptr : &words_[record];
  }

  // Empty when the feature has no name.
  std::string_view name(std::uint32_t index) const {
    const std::uint32_t* record = by_index_.find(index);
    return record && *record != none ? name_in(*record) : std::string_view{};
  }

  // False when the name or the index is taken.
  bool add(std::uint32_t index, std::string_view name) {
    if (2 * (size() + 1) > buckets_.size()) grow();
    const auto mixed = hash(name);
    Bucket& bucket = buckets_[bucket_of(name, mixed, first_like(mixed))];
    std::uint32_t* record = by_index_.make(index);
    if (bucket.record != none || *record != none) return false;
    *record = keep(index, name);
    bucket = {mixed, *record};
    ++size_;
    if (next_feature_ <= index) next_feature_ = std::uint64_t{index} + 1;
    return true;
  }

  // Leaves the indices below to features without names.
  void start_at(std::uint64_t next_feature) {
    if (next_feature_ < next_feature) next_feature_ = next_feature;
  }

  // In order of index.
  template <class Visit>
  void each_sorted(Visit visit) const {
    by_index_.each_sorted([&](std::uint32_t index, std::uint32_t record) {
      if (record != none) visit(index, name_in(record));
    });
  }

 private:
  static constexpr std::uint32_t none = 0;  // no record is at the first word

  // Small, so that many of them fit into the cache.
  struct Bucket {
    std::uint32_t hash = 0;
    std::uint32_t record = none;
  };

  Seed seed_;
  std::vector<std::uint32_t> words_{0};  // records: the index, the length, the bytes of the name
  std::size_t size_ = 0;
  std::vector<Bucket> buckets_ = std::vector<Bucket>(16);  // doubled when half are taken
  std::size_t mask_ = 15;                                  // their number, a power of two, less one
  Table<std::uint32_t> by_index_;                          // records
  std::uint64_t next_feature_ = 0;

  std::uint32_t keep(std::uint32_t index, std::string_view name) {
    const std::size_t record = words_.size(), more = words_of(name.size());
    if (record + more > 0xFFFFFFFFu) throw std::length_error("names take more than 16 GB");
    words_.resize(record + more);
    words_[record] = index;
    words_[record + 1] = static_cast<std::uint32_t>(name.size());
    name.copy(reinterpret_cast<char*>(&words_[record] + 2), name.size());
    return static_cast<std::uint32_t>(record);
  }

  // Of the record of a name of so many bytes.
  static std::size_t words_of(std::size_t length) { return 2 + (length + 3) / 4; }

  std::string_view name_in(std::uint32_t record) const {
    return {reinterpret_cast<const char*>(&words_[record] + 2), words_[record + 1]};
  }

  // Eight bytes at a time, each mixed in by a multiplication; the last ones may be among those
  // before, or, of a short name, the same ones twice.
  std::uint32_t hash(std::string_view name) const {
    std::uint64_t h = seed_.start + name.size();
    const char* at = name.data();
    const char* const end = at + name.size();
    if (name.size() >= 8) {
      for (; end - at > 8; at += 8) h = seed_.mix(h, read_as<std::uint64_t>(at));
      return static_cast<std::uint32_t>(seed_.mix(h, read_as<std::uint64_t>(end - 8)));
    }
    return static_cast<std::uint32_t>(seed_.mix(h, few_bytes(name)));
  }
  // All of fewer than eight, some of them twice.
  static std::uint64_t few_bytes(std::string_view name) {
    const char* at = name.data();
    const std::size_t size = name.size();
    if (size >= 4) {
      return std::uint64_t{read_as<std::uint32_t>(at)} << 32 |
             read_as<std::uint32_t>(at + size - 4);
    }
    const auto byte = [at](std::size_t i) { return unsigned{static_cast<unsigned char>(at[i])}; };
    return size == 0 ? 0 : byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
  }

  // The first bucket from `at` on that has this hash, or is free.
  std::size_t like(std::uint32_t mixed, std::size_t at) const {
    while (buckets_[at].record != none && buckets_[at].hash != mixed) at = (at + 1) & mask_;
    return at;
  }
  std::size_t first_like(std::uint32_t mixed) const { return like(mixed, mixed & mask_); }

  // Where the name is, or where it would go, from a bucket like it on.
  std::size_t bucket_of(std::string_view name, std::uint32_t mixed, std::size_t at) const {
    while (buckets_[at].record != none && name_in(buckets_[at].record) != name) {
      at = like(mixed, (at + 1) & mask_);
    }
    return at;
  }

  void grow() {
    std::vector<Bucket> smaller(2 * buckets_.size());
    smaller.swap(buckets_);
    mask_ = buckets_.size() - 1;
    for (const Bucket& bucket : smaller) {
      if (bucket.record == none) continue;
      std::size_t at = bucket.hash & mask_;
      while (buckets_[at].record != none) at = (at + 1) & mask_;
      buckets_[at] = bucket;
    }
  }
};

}  // namespace pqr
