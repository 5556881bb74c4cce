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

// Asks for a cache line. Not __builtin_prefetch alone: GCC takes a function that
// does nothing else for one without effect, and drops the call.
inline void fetch(const void* address) {
#ifdef __SSE2__
  asm volatile("prefetcht0 %0" ::"m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// Asks for the start of an array, which is read on from there: the machine then sees where it goes.
// Its first line may be the last one of what lies before it, which has been asked for.
template <class T>
inline void fetch_start(const T* array, std::size_t size) {
  constexpr std::size_t line = 64, most = 4 * line;
  const char* const first = reinterpret_cast<const char*>(array);
  const std::size_t bytes = std::min(size * sizeof(T), most);
  for (std::size_t at = bytes; at > 0; at -= std::min(at, line)) fetch(first + at - 1);
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
    constexpr std::size_t line = 64, large_page = std::size_t{1} << 21;
    const std::size_t to = size * sizeof(T) >= large_page ? large_page : line;
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

// One zeroed array, of which only what is touched is there, so that it may be larger than what is
// needed. Nothing where the system grants no addresses for it.
template <class T>
class Stretch {
 public:
  static constexpr std::size_t large_page = std::size_t{1} << 21;
  static_assert(std::is_trivially_copyable_v<T>);

  Stretch() = default;
  explicit Stretch(std::size_t size) {
    const std::size_t bytes = size * sizeof(T) + large_page;  // one to align
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    const auto first = reinterpret_cast<std::uintptr_t>(memory) + large_page - 1;
    data_ = {reinterpret_cast<T*>(first / large_page * large_page), Unmap{memory, bytes}};
  }

  T* data() const { return data_.get(); }

  // Has one large page, where the system has them, take the place of the small ones from here on.
  // They may be in use.
  void enlarge(T* first) const {
#ifdef MADV_HUGEPAGE
    constexpr int collapse = 25;  // MADV_COLLAPSE, of Linux 6.1
    if (madvise(first, large_page, MADV_HUGEPAGE) == 0) madvise(first, large_page, collapse);
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

// Zeroed memory for arrays that live as long as their owner. Nothing is touched before it is used,
// and large parts lie in large pages, where the system has them.
//
// An owner who knows how much it will take soon may say so. Then large parts of that are touched by
// a thread of their own: a large page that the system has to find and clear costs as much as
// thousands of rows. An arena may also be made ready before its owner is there.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept { swap(other); }
  Arena& operator=(Arena&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Arena() {
    for (const Part& part : parts_) {
      if (part.toucher) part.toucher->stop();
      munmap(part.memory, part.bytes);
    }
  }

  // An array of a type whose initial value is all zeros; it starts a cache line.
  template <class T>
  T* take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t bytes = rounded(count * sizeof(T), line);
    if (bytes > left_) add_part(bytes);
    left_ -= bytes;
    return reinterpret_cast<T*>(std::exchange(next_, next_ + bytes));
  }

  void expect(std::size_t bytes) { expected_ = bytes; }

  // Has that much touched from now on, if it is worth a thread.
  void make_ready(std::size_t bytes) {
    expect(bytes);
    if (bytes >= worth_touching) add_part(bytes);
  }

  bool is_new() const { return parts_.empty(); }

  // Whether a thread is still on its way to the next `count` values.
  template <class T>
  bool is_being_touched(std::size_t count) const {
    const std::size_t bytes = rounded(count * sizeof(T), line);
    const Toucher* const toucher = bytes > left_ ? nullptr : parts_.back().toucher.get();
    return toucher && !toucher->is_past(next_ + bytes);
  }

 private:
  static constexpr std::size_t line = 64;
  static constexpr std::size_t first_part = std::size_t{1} << 16;
  static constexpr std::size_t large_page = std::size_t{1} << 21;

  static constexpr std::size_t worth_touching = std::size_t{32} << 20;

  // Touches memory from its start. The thread is detached, because a process that was
  // forked has the arena, but neither the thread nor a way to join it.
  class Toucher {
   public:
    static std::shared_ptr<Toucher> start(unsigned char* first, std::size_t bytes) {
      const auto toucher = std::make_shared<Toucher>();
      try {
        std::thread([=] { toucher->touch(first, bytes); }).detach();
      } catch (const std::system_error&) {  // no thread to be had, and none is needed
        return nullptr;
      }
      return toucher;
    }

    bool is_past(const unsigned char* end) const { return done_ || next_ >= end; }

    // After it nothing is touched.
    void stop() {
      stopped_ = true;
      while (!done_ && getpid() == process_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }

   private:
    const pid_t process_ = getpid();
    std::atomic<bool> stopped_{false}, done_{false};
    std::atomic<const unsigned char*> next_{nullptr};

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
  };

  struct Part {
    void* memory;
    std::size_t bytes;
    std::shared_ptr<Toucher> toucher;
  };
  std::vector<Part> parts_;
  std::size_t expected_ = 0;
  unsigned char* next_ = nullptr;
  std::size_t left_ = 0;   // from next_ on
  std::size_t total_ = 0;  // of all parts

  static std::size_t rounded(std::size_t bytes, std::size_t to) {
    return (bytes + to - 1) / to * to;
  }

  void swap(Arena& other) noexcept {
    std::swap(parts_, other.parts_);
    std::swap(expected_, other.expected_);
    std::swap(next_, other.next_);
    std::swap(left_, other.left_);
    std::swap(total_, other.total_);
  }

  // Each part is as large as all before it, but no larger than what is expected.
  void add_part(std::size_t least) {
    const bool expected = total_ < expected_;
    const std::size_t usual = expected ? std::min(total_, expected_ - total_) : total_;
    std::size_t bytes = std::max({least, usual, first_part});
    const bool large = bytes >= large_page;
    if (large) bytes = rounded(bytes, large_page) + large_page;  // one to align
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    parts_.push_back({memory, bytes, {}});
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
    if (expected && left_ >= worth_touching) {
      parts_.back().toucher = Toucher::start(next_, left_);
    }
  }
};

}  // namespace pqr
