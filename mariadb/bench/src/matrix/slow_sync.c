/* A device whose syncs take FLIFO_SYNC_US microseconds longer. Preloaded into a server.
 *
 * SPDX-License-Identifier: GPL-2.0-only */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int delayed(const char *name, int file) {
  const char *us = getenv("FLIFO_SYNC_US");
  if (us != NULL) usleep((useconds_t)strtoul(us, NULL, 10));
  int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  return sync(file);
}

int fsync(int file) { return delayed("fsync", file); }
int fdatasync(int file) { return delayed("fdatasync", file); }
