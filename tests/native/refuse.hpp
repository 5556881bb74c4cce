// Included before all else (-include), where the system is to grant no addresses without memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#define REFUSES_ADDRESSES

inline void* granted(void* at, std::size_t size, int access, int flags, int file, off_t from) {
  return flags & MAP_NORESERVE ? MAP_FAILED : mmap(at, size, access, flags, file, from);
}
#define mmap granted
