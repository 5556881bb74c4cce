// A slow disk and a wall clock that jumps, for LD_PRELOAD: torture.py writes the file that PQR_WEATHER
// names, and processes follow it at once. It has two numbers: microseconds to add to the clock, and
// microseconds that a sync takes longer. The monotonic clock is left alone, as the system leaves it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const volatile int64_t* weather;

__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("PQR_WEATHER");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* found = mmap(0, 16, PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED) weather = found;
  close(file);
}

static int64_t now(int which) { return weather ? weather[which] : 0; }

int clock_gettime(clockid_t clock, struct timespec* time) {
  // A sanitizer asks for the time while it is being loaded, when dlsym() does not work yet.
  const int failed = (int)syscall(SYS_clock_gettime, clock, time);
  if (failed || clock != CLOCK_REALTIME) return failed;
  const int64_t moved = time->tv_sec * 1000000LL + time->tv_nsec / 1000 + now(0);
  time->tv_sec = moved / 1000000;
  time->tv_nsec = moved % 1000000 * 1000;
  return 0;
}

int fdatasync(int file) {
  if (now(1)) usleep((useconds_t)now(1));
  return REAL(fdatasync)(file);
}

int fsync(int file) {
  if (now(1)) usleep((useconds_t)now(1));
  return REAL(fsync)(file);
}
