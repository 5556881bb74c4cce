// Large arrays, in large pages where the system has them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace pqr {

constexpr std::size_t large_page = std::size_t{1} << 21;  // 2 MB, as x86 and ARM have them

// A zeroed array of which only the pages in use have memory, so that it may be larger than what is
// needed. It starts a large page. Null where the system grants no addresses.
template <class T>
class Stretch {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Stretch() = default;
  // Without MAP_NORESERVE the array counts towards the memory that the system commits, and a
  // failure is an exception.
  explicit Stretch(std::size_t size, int flags = MAP_NORESERVE) {
    const std::size_t bytes = size * sizeof(T) + large_page;  // one to align
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED && flags == 0) throw std::bad_alloc();
    if (memory == MAP_FAILED) return;
    const auto first = reinterpret_cast<std::uintptr_t>(memory) + large_page - 1;
    data_ = {reinterpret_cast<T*>(first / large_page * large_page), Unmap{memory, bytes}};
  }

  T* data() const { return data_.get(); }

  // Values from `first` to `last` come in large pages, as far as these lie in between.
  void prefer_large(std::size_t first, std::size_t last) const {
    first = (first * sizeof(T) + large_page - 1) / large_page * large_page;
    last = last * sizeof(T) / large_page * large_page;
    [[maybe_unused]] auto* const memory = reinterpret_cast<unsigned char*>(data());
#ifdef MADV_HUGEPAGE
    if (first < last) madvise(memory + first, last - first, MADV_HUGEPAGE);
#endif
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
