// SPDX-License-Identifier: GPL-2.0-only

#include "sleepers.h"

#include "processors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace flifo {

namespace {

using Text = char[512];

void close_file(int &file) {
  if (file >= 0) ::close(file);
  file = -1;
}

// Reads a small file, and leaves it open. False if there is none; one of a thread that has ended is closed, since another may have
// its number at the next look.
bool read_file(const char *path, int &file, Text &text) {
  if (file < 0) {
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
  }
  const ssize_t length = pread(file, text, sizeof text - 1, 0);
  if (length <= 0) {
    close_file(file);
    return false;
  }
  text[length] = '\0';
  return true;
}

bool read_of_thread(int tid, const char *name, int &file, Text &text) {
  char path[64];
  if (file < 0) snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
  return read_file(path, file, text);
}

}  // namespace

void Sleepers::Files::close() {
  close_file(stat);
  close_file(schedstat);
}

bool Sleepers::is_asleep(int tid, unsigned long long &run_ns) {
  Files &of_thread = files[static_cast<unsigned>(tid) % THREADS];
  if (of_thread.tid != tid) {
    of_thread.close();
    of_thread.tid = tid;
  }
  Text text;
  if (!read_of_thread(tid, "stat", of_thread.stat, text)) return false;
  // Behind its name, in which there may be anything.
  const char *state = strrchr(text, ')');
  if (state == nullptr || state[1] != ' ' || (state[2] != 'S' && state[2] != 'D')) return false;
  if (!read_of_thread(tid, "schedstat", of_thread.schedstat, text)) return false;
  run_ns = strtoull(text, nullptr, 10);
  return true;
}

bool Sleepers::processors_are_busy() {
  Text text;
  double load;
  unsigned can_run;
  // Three averages, then those who can run now.
  return read_file("/proc/loadavg", loadavg, text) &&
         sscanf(text, "%lf %lf %lf %u/", &load, &load, &load, &can_run) == 4 && can_run > processors() + 1;
}

void Sleepers::close_all() {
  for (Files &of_thread : files) of_thread.close();
  close_file(loadavg);
}

}  // namespace flifo
