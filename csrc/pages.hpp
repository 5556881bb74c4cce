// Large arrays, in large pages where the system has them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace pqr {

constexpr std::size_t large_page = std::size_t{1} << 21;

// What is touched from now on in this memory comes in large pages.
inline void prefer_large(void* memory, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

// Puts large pages under memory that starts one, where half of the small ones or more are in use.
inline void enlarge(void* memory, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr int collapse = 25;  // MADV_COLLAPSE, of Linux 6.1; older systems do it later
  for (std::size_t done = 0; done < bytes; done += large_page) {
    unsigned char in_use[large_page / 4096] = {};
    void* const page = static_cast<unsigned char*>(memory) + done;
    if (mincore(page, large_page, in_use) != 0) return;
    const auto used = std::count_if(std::begin(in_use), std::end(in_use),
                                    [](unsigned char flags) { return flags & 1; });
    if (used < std::end(in_use) - std::begin(in_use) - used) continue;
    if (madvise(page, large_page, MADV_HUGEPAGE) == 0) madvise(page, large_page, collapse);
  }
#else
  (void)memory, (void)bytes;
#endif
}

// Gives freed memory back to the system. malloc() keeps up to 64 MB of it.
inline void release_freed() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// An array whose values are not initialised.
template <class T>
class Buffer {
 public:
  using value_type = T;
  static_assert(std::is_trivially_copyable_v<T>);

  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    const std::size_t unit = size * sizeof(T) >= large_page ? large_page : std::size_t{64};
    const std::size_t bytes = (size * sizeof(T) + unit - 1) / unit * unit;
    if (bytes == 0) return;
    data_.reset(static_cast<T*>(std::aligned_alloc(unit, bytes)));
    if (!data_) throw std::bad_alloc();
    if (unit == large_page) prefer_large(data_.get(), bytes);
  }

  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

// A zeroed array of which only the pages in use have memory, so that it may be larger than what is
// needed. It starts a large page. Null where the system grants no addresses.
template <class T>
class Stretch {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Stretch() = default;
  // Without MAP_NORESERVE the array counts towards what the system lets a process ask for.
  explicit Stretch(std::size_t size, int flags = MAP_NORESERVE) {
    const std::size_t bytes = size * sizeof(T) + large_page;  // one to align
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) return;
    const auto first = reinterpret_cast<std::uintptr_t>(memory) + large_page - 1;
    data_ = {reinterpret_cast<T*>(first / large_page * large_page), Unmap{memory, bytes}};
  }

  T* data() const { return data_.get(); }

  // Values from `first` to `last` come in large pages, as far as these lie in between.
  void prefer_large(std::size_t first, std::size_t last) const {
    first = (first * sizeof(T) + large_page - 1) / large_page * large_page;
    last = last * sizeof(T) / large_page * large_page;
    auto* const memory = reinterpret_cast<unsigned char*>(data());
    if (first < last) pqr::prefer_large(memory + first, last - first);
  }

 private:
  struct Unmap {
    void* memory = nullptr;
    std::size_t bytes = 0;
    void operator()(T*) const { munmap(memory, bytes); }
  };
  std::unique_ptr<T, Unmap> data_;
};

}  // namespace pqr
