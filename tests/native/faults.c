// System calls that fail on demand, for LD_PRELOAD: test_faults.py arms it and writes files.
//
// Only calls of the thread that has armed it count. The n-th of them fails with an error number, or,
// if that is 0, the n-th write stops halfway; with `for_good`, so do all later ones.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

static __thread int armed, calls, nth, error, for_good;

void faults_arm(int the_nth, int the_error, int stays) {
  calls = 0;
  nth = the_nth;
  error = the_error;
  for_good = stays;
  armed = 1;
}

int faults_disarm(void) {
  armed = 0;
  return calls;
}

static int is_due(int is_write) {
  if (!armed || (error == 0 && !is_write)) return 0;
  ++calls;
  return calls == nth || (for_good && is_write && calls > nth);
}

static int fails(int is_write) {
  if (!is_due(is_write)) return 0;
  errno = error;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* data, size_t size) {
  if (error == 0 && is_due(1)) return REAL(write)(file, data, (size + 1) / 2);
  if (error != 0 && fails(1)) return -1;
  return REAL(write)(file, data, size);
}

#define OPEN(name)                                              \
  int name(const char* path, int flags, ...) {                  \
    va_list rest;                                               \
    va_start(rest, flags);                                      \
    const mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                               \
    return fails(0) ? -1 : REAL(name)(path, flags, mode);       \
  }
OPEN(open)
OPEN(open64)

#define FALLIBLE(name, parameters, arguments) \
  int name parameters { return fails(0) ? -1 : REAL(name) arguments; }

int fsync(int);
int fdatasync(int);
int rename(const char*, const char*);
int mkdir(const char*, mode_t);
int chmod(const char*, mode_t);
int fchmodat(int, const char*, mode_t, int);
int flock(int, int);
int ftruncate64(int, off64_t);
FALLIBLE(fsync, (int file), (file))
FALLIBLE(fdatasync, (int file), (file))
FALLIBLE(rename, (const char* from, const char* to), (from, to))
FALLIBLE(mkdir, (const char* path, mode_t mode), (path, mode))
FALLIBLE(chmod, (const char* path, mode_t mode), (path, mode))
FALLIBLE(fchmodat, (int at, const char* path, mode_t mode, int flags), (at, path, mode, flags))
FALLIBLE(flock, (int file, int how), (file, how))
FALLIBLE(ftruncate64, (int file, off64_t size), (file, size))
