/* A device whose syncs take their time: none returns while the file that FLIFO_HOLD_SYNCS names is there. Preloaded.
 *
 * SPDX-License-Identifier: GPL-2.0-only */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int held(const char *name, int file) {
  const char *path = getenv("FLIFO_HOLD_SYNCS");
  while (path != NULL && access(path, F_OK) == 0) usleep(1000);
  int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  return sync(file);
}

int fsync(int file) { return held("fsync", file); }
int fdatasync(int file) { return held("fdatasync", file); }
