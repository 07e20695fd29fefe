"""A clock that goes wrong for some processes only: a library that is loaded into them shifts what they are told.

It shifts the time that a process asks for, and the times that the kernel gives to what the process writes or touches,
as if the machine's clock had been set. Their children have it if they inherit the environment; `build` gives ninja
one of its own, so the library adds itself to that. What cannot be set is the time of a file's last change in
status (ctime), and the clock of actions, whose environment is fixed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))
static char shift_text[32], log_path[4096], library[4096];
static long shift;

int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = REAL(clock_gettime)(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += shift;
  return status;
}
int gettimeofday(struct timeval *now, void *zone) {
  (void) zone;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  now->tv_sec = t.tv_sec, now->tv_usec = t.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *now) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return now ? *now = t.tv_sec : t.tv_sec;
}

/* What a file was written at, for the process that closes it. */
static void date(int file) {
  struct stat found;
  int before = errno, flags = fcntl(file, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !fstat(file, &found) && S_ISREG(found.st_mode)) {
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[1] = times[0];
    REAL(futimens)(file, times);
  }
  errno = before;
}
int close(int file) {
  date(file);
  return REAL(close)(file);
}
int fclose(FILE *file) {
  fflush(file);
  date(fileno(file));
  return REAL(fclose)(file);
}
int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
  struct timespec now[2];
  clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  return REAL(utimensat)(folder, path, times ? times : now, flags);
}

/* The builder gives ninja an environment of its own. */
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) {
  char *with[64];
  int count = 0;
  while (envp[count] && count < 60) with[count] = envp[count], count++;
  const char *name = strrchr(path, '/');
  if (name && !strcmp(name, "/ninja")) with[count++] = library, with[count++] = shift_text, with[count++] = log_path;
  with[count] = NULL;
  return REAL(posix_spawn)(pid, path, actions, attributes, argv, with);
}

__attribute__((constructor)) static void begin(void) {
  shift = atol(getenv("CLOCK_SHIFT"));
  snprintf(shift_text, sizeof shift_text, "CLOCK_SHIFT=%ld", shift);
  snprintf(log_path, sizeof log_path, "CLOCK_LOG=%s", getenv("CLOCK_LOG"));
  snprintf(library, sizeof library, "LD_PRELOAD=%s", getenv("LD_PRELOAD"));
  int log = open(getenv("CLOCK_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0644);
  dprintf(log, "%s %ld\n", program_invocation_short_name, time(NULL));
  REAL(close)(log);
}
"""


@dataclass(frozen=True)
class ShiftedClock:
    """The library in folder `folder`, which also has the log of the processes that loaded it."""

    folder: Path

    def variables(self, seconds: int) -> dict[str, str]:
        """The environment of a process whose clock is `seconds` ahead of the machine's."""
        library, log = str(self.folder / "clock.so"), str(self.folder / "log")
        return {"LD_PRELOAD": library, "CLOCK_SHIFT": str(seconds), "CLOCK_LOG": log}

    def loaded(self) -> list[tuple[str, int]]:
        """The programs that have loaded the library, and their clocks then, in seconds since the epoch."""
        lines = (self.folder / "log").read_text().splitlines()
        return [(name, int(seconds)) for name, _, seconds in (line.rpartition(" ") for line in lines)]


def shifted_clock(folder: Path) -> ShiftedClock | None:
    """Compile the library in `folder`, which is made; None where that is not possible."""
    if sys.platform != "linux" or not shutil.which("cc"):
        return None
    folder.mkdir()
    (folder / "clock.c").write_text(_SOURCE)
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return ShiftedClock(folder)
