/* Notes what a process has made durable: loaded by LD_PRELOAD (harness/power_loss.py).

   Of a file below $POWER_ROOT that is fsynced the content is copied to $POWER_SHADOW/KEY, of a folder the names are. A
   KEY is inode and time of birth. Each such call, and each that makes, moves or removes a name, is an instant before
   and after it; the process kills itself at the instant $POWER_AT, and writes at its end how many there were. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *root, *shadow;
static long at, count;
static pid_t owner;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
  root = getenv("POWER_ROOT");
  shadow = getenv("POWER_SHADOW");
  at = getenv("POWER_AT") ? atol(getenv("POWER_AT")) : 0;
  owner = getpid();
  unsetenv("LD_PRELOAD"); /* the power of one process is enough: what its children write it makes durable itself */
}

__attribute__((destructor)) static void end(void) {
  char name[4096];
  if (!shadow || getpid() != owner) return;
  snprintf(name, sizeof name, "%s/instants", shadow);
  FILE *file = fopen(name, "w");
  if (file) fprintf(file, "%ld", count), fclose(file);
}

static int ours(void) { return root && shadow && getpid() == owner; }

static void instant(void) {
  if (++count == at) kill(owner, SIGKILL);
}

static int key_of(int folder, const char *name, int flags, char *key, size_t room, int *mode) {
  struct statx about;
  if (statx(folder, name, flags | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME | STATX_MODE, &about)) return 0;
  *mode = about.stx_mode;
  snprintf(key, room, "%llu-%lld.%u", (unsigned long long)about.stx_ino, (long long)about.stx_btime.tv_sec,
           about.stx_btime.tv_nsec);
  return 1;
}

static int below(int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return !strncmp(path, root, strlen(root));
}

static void note(int descriptor) {
  char key[128], target[4200], beside[4300], piece[65536];
  int mode;
  if (!below(descriptor) || !key_of(descriptor, "", AT_EMPTY_PATH, key, sizeof key, &mode)) return;
  snprintf(target, sizeof target, "%s/%s", shadow, key);
  snprintf(beside, sizeof beside, "%s.part", target);
  FILE *file = fopen(beside, "w");
  if (!file) abort();
  if (S_ISDIR(mode)) {
    int again = openat(descriptor, ".", O_RDONLY | O_DIRECTORY);
    DIR *folder = fdopendir(again);
    for (struct dirent *entry; (entry = readdir(folder));) {
      if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
      if (key_of(again, entry->d_name, 0, key, sizeof key, &mode))
        fprintf(file, "%s %c %s\n", key, S_ISDIR(mode) ? 'd' : 'f', entry->d_name);
    }
    closedir(folder);
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int again = open(link, O_RDONLY);
    for (ssize_t length; (length = read(again, piece, sizeof piece)) > 0;) fwrite(piece, 1, length, file);
    close(again);
  }
  fclose(file);
  int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
  if (real(beside, target)) abort();
}

static int sync_of(int descriptor) {
  pthread_mutex_lock(&guard);
  instant();
  note(descriptor); /* the disk of this machine need not have it */
  instant();
  pthread_mutex_unlock(&guard);
  return 0;
}

#define CALL(type, name, declared, given)          \
  type name declared {                             \
    type(*real) declared = dlsym(RTLD_NEXT, #name); \
    if (!ours()) return real given;                \
    pthread_mutex_lock(&guard);                    \
    instant();                                     \
    type found = real given;                       \
    instant();                                     \
    pthread_mutex_unlock(&guard);                  \
    return found;                                  \
  }

int fsync(int descriptor) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  return ours() ? sync_of(descriptor) : real(descriptor);
}

int fdatasync(int descriptor) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
  return ours() ? sync_of(descriptor) : real(descriptor);
}

CALL(int, rename, (const char *from, const char *to), (from, to))
CALL(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
CALL(int, unlink, (const char *name), (name))
CALL(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))
CALL(int, mkdir, (const char *name, mode_t mode), (name, mode))
CALL(int, mkdirat, (int folder, const char *name, mode_t mode), (folder, name, mode))
