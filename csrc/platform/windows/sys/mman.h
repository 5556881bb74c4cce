// What pages.hpp needs of POSIX memory maps, for Windows. Memory is committed when it is asked for:
// there are no addresses without a reserve. A large array without one is refused, and whoever asked
// for it takes a smaller one, or hashes.
#pragma once

#include <cstddef>

// Not <windows.h>, whose macros are words of the core.
extern "C" __declspec(dllimport) void* __stdcall VirtualAlloc(void* address, std::size_t size,
                                                              unsigned long type,
                                                              unsigned long protection);
extern "C" __declspec(dllimport) int __stdcall VirtualFree(void* address, std::size_t size,
                                                           unsigned long type);

constexpr int PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 1, MAP_ANONYMOUS = 2, MAP_NORESERVE = 4;
static void* const MAP_FAILED = nullptr;

inline void* mmap(void*, std::size_t size, int, int flags, int, int) {
  constexpr std::size_t most = std::size_t{128} << 20;
  constexpr unsigned long reserve_and_commit = 0x3000, read_and_write = 4;
  if ((flags & MAP_NORESERVE) != 0 && size > most) return MAP_FAILED;
  return VirtualAlloc(nullptr, size, reserve_and_commit, read_and_write);
}

inline int munmap(void* memory, std::size_t) {
  constexpr unsigned long release = 0x8000;
  return VirtualFree(memory, 0, release) != 0 ? 0 : -1;
}
