// Memory as the machine has it: cache lines to ask for in advance, large pages.
#pragma once

#include <sys/mman.h>
#ifdef __linux__
#include <sys/resource.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace pqr {

constexpr std::size_t cache_line = 64;
constexpr std::size_t large_page = std::size_t{1} << 21;

// Asks for a cache line, up to the second cache: a row needs more lines than the first one can have
// under way. Not __builtin_prefetch alone: GCC takes a function that does nothing else for one
// without effect, and drops the call.
inline void fetch(const void* address) {
#ifdef __SSE2__
  asm volatile("prefetcht1 %0" ::"m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1, 2);
#endif
}

// Asks for a value: the line in which it starts, and those that it fills behind it.
template <class T>
inline void fetch_value(const T* value) {
  for (std::size_t at = 0; at < sizeof(T); at += cache_line) {
    fetch(reinterpret_cast<const char*>(value) + at);
  }
}

// Asks for the ends of an array, which is read from its start: the machine sees where it goes on.
template <class T>
inline void fetch_ends(const T* array, std::size_t size) {
  fetch(array);
  fetch(array + size);  // where the next one may start
}

// Hands memory that was freed back to the system. malloc keeps up to 64 MB of it.
inline void release_freed() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Room for many values, none of which is there before it has been written: large ones lie in large
// pages, where the system has them.
template <class T>
class Buffer {
 public:
  using value_type = T;
  static_assert(std::is_trivially_copyable_v<T>);

  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    const std::size_t to = size * sizeof(T) >= large_page ? large_page : cache_line;
    const std::size_t bytes = (size * sizeof(T) + to - 1) / to * to;
    if (bytes == 0) return;
    data_.reset(static_cast<T*>(std::aligned_alloc(to, bytes)));
    if (!data_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (to == large_page) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
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

// Touches memory from its start on a thread of its own: a large page that the system has to find
// and clear costs as much as thousands of rows.
class Toucher {
 public:
  Toucher() = default;
  Toucher(unsigned char* first, std::size_t bytes) : work_(std::make_shared<Work>()) {
    try {  // detached: a process that was forked has the memory, but no thread that it could join
      std::thread([work = work_, first, bytes] { work->touch(first, bytes); }).detach();
    } catch (const std::system_error&) {  // no thread to be had, and none is needed
      work_ = nullptr;
    }
  }
  Toucher(Toucher&&) noexcept = default;
  Toucher& operator=(Toucher&& other) noexcept {
    std::swap(work_, other.work_);
    return *this;
  }
  // After it nothing is touched.
  ~Toucher() {
    if (work_) work_->stop();
  }

  bool is_before(const unsigned char* end) const { return work_ && work_->is_before(end); }

 private:
  class Work {
   public:
    bool is_before(const unsigned char* end) const { return !done_ && next_ < end; }

    void stop() {
      stopped_ = true;
      while (!done_ && getpid() == process_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }

    // Writes a zero where there is one, in one step, as the owner may be writing there; while no
    // other thread has anything to do. Not MADV_POPULATE_WRITE: it holds a lock that everybody
    // needs who takes or frees memory.
    void touch(unsigned char* first, std::size_t bytes) {
      constexpr std::size_t page = 4096;
#ifdef __linux__
      setpriority(PRIO_PROCESS, 0, 19);  // of this thread
#endif
      for (std::size_t at = 0; at < bytes && !stopped_; at += page) {
        unsigned char zero = 0;
        __atomic_compare_exchange_n(first + at, &zero, 0, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        next_.store(first + at + page, std::memory_order_relaxed);
      }
      done_ = true;
    }

   private:
    const pid_t process_ = getpid();
    std::atomic<bool> stopped_{false}, done_{false};
    std::atomic<const unsigned char*> next_{nullptr};
  };
  std::shared_ptr<Work> work_;
};

// Has one large page, where the system has them, take the place of the small ones from here on,
// which may be in use.
inline void enlarge(void* page) {
#ifdef MADV_HUGEPAGE
  constexpr int collapse = 25;  // MADV_COLLAPSE, of Linux 6.1
  if (madvise(page, large_page, MADV_HUGEPAGE) == 0) madvise(page, large_page, collapse);
#endif
}

// One zeroed array, of which only what is touched is there, so that it may be larger than what is
// needed; it starts a large page. Nothing where the system grants no addresses for it.
template <class T>
class Stretch {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Stretch() = default;
  explicit Stretch(std::size_t size) {
    const std::size_t bytes = size * sizeof(T) + large_page;  // one to align
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    const auto first = reinterpret_cast<std::uintptr_t>(memory) + large_page - 1;
    data_ = {reinterpret_cast<T*>(first / large_page * large_page), Unmap{memory, bytes}};
    size_ = size;
  }

  T* data() const { return data_.get(); }
  std::size_t size() const { return data_ ? size_ : 0; }

  // What is touched from now on between two bytes, rounded inwards, comes in large pages.
  void prefer_large(std::size_t from, std::size_t to) const {
    from = (from + large_page - 1) / large_page * large_page;
    to = to / large_page * large_page;
#ifdef MADV_HUGEPAGE
    if (from < to)
      madvise(reinterpret_cast<unsigned char*>(data()) + from, to - from, MADV_HUGEPAGE);
#endif
  }

  // Has the values from `first` to `last` touched, in large pages.
  void touch(std::size_t first, std::size_t last) {
    prefer_large(first * sizeof(T), last * sizeof(T));
    toucher_ =
        Toucher(reinterpret_cast<unsigned char*>(data() + first), (last - first) * sizeof(T));
  }

  // Whether a thread is still on its way to the last value before `end`.
  bool is_being_touched(std::size_t end) const {
    return data_ && toucher_.is_before(reinterpret_cast<const unsigned char*>(data() + end));
  }

 private:
  struct Unmap {
    void* memory = nullptr;
    std::size_t bytes = 0;
    void operator()(T*) const { munmap(memory, bytes); }
  };
  std::unique_ptr<T, Unmap> data_;
  std::size_t size_ = 0;
  Toucher toucher_;  // ends before what it touches
};

// Zeroed memory for arrays that live as long as their owner. Nothing is touched before it is used,
// and large parts lie in large pages, where the system has them.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept { swap(other); }
  Arena& operator=(Arena&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Arena() {
    for (const Part& part : parts_) munmap(part.memory, part.bytes);
  }

  // An array of a type whose initial value is all zeros; it starts a cache line.
  template <class T>
  T* take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= cache_line);
    const std::size_t bytes = rounded(count * sizeof(T), cache_line);
    if (bytes > left_) add_part(bytes);
    left_ -= bytes;
    return reinterpret_cast<T*>(std::exchange(next_, next_ + bytes));
  }

 private:
  static constexpr std::size_t first_part = std::size_t{1} << 16;

  struct Part {
    void* memory;
    std::size_t bytes;
  };
  std::vector<Part> parts_;
  unsigned char* next_ = nullptr;
  std::size_t left_ = 0;   // from next_ on
  std::size_t total_ = 0;  // of all parts

  static std::size_t rounded(std::size_t bytes, std::size_t to) {
    return (bytes + to - 1) / to * to;
  }

  void swap(Arena& other) noexcept {
    std::swap(parts_, other.parts_);
    std::swap(next_, other.next_);
    std::swap(left_, other.left_);
    std::swap(total_, other.total_);
  }

  // Each part is as large as all before it.
  void add_part(std::size_t least) {
    std::size_t bytes = std::max({least, total_, first_part});
    const bool large = bytes >= large_page;
    if (large) bytes = rounded(bytes, large_page) + large_page;  // one to align
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    parts_.push_back({memory, bytes});
    total_ += bytes;
    next_ = static_cast<unsigned char*>(memory);
    left_ = bytes;
    if (!large) return;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::size_t skipped = rounded(address, large_page) - address;
    next_ += skipped;
    left_ -= skipped;
#ifdef MADV_HUGEPAGE
    madvise(next_, left_, MADV_HUGEPAGE);
#endif
  }
};

}  // namespace pqr
