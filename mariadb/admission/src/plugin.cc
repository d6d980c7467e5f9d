// flifo for MariaDB: an admission scheduler for every storage engine.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// At most `flifo_thread_concurrency` statements run at once. An audit plugin sees where statements begin and end, the
// server's wait callbacks show where they wait, and its stages show where they commit. This file declares the plugin and
// connects the server's hooks to `lifecycle`.
//
// Failure: without wait callbacks or stages the plugin works with less, and warns in the error log. A wrong option, or no
// thread for the watcher, keeps the plugin from being loaded.

#include "connection.h"
#include "dormancy.h"
#include "lifecycle.h"
#include "queueing.h"
#include "rowlocks.h"
#include "server.h"
#include "settings.h"
#include "stages.h"
#include "status.h"

#include <mysql/plugin_audit.h>
#include <mysqld_error.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

namespace {

using namespace flifo;

// A killed statement stays in the queue at most this long; usually the server wakes the watcher at once.
constexpr std::chrono::milliseconds WATCHED_EVERY{20};

std::thread watcher;
std::atomic<bool> stopping;

void watch() {
  while (!stopping.load(std::memory_order_relaxed)) {
    queueing::wait_for_kill(WATCHED_EVERY);
    rowlocks::measure();
    queueing::cancel_killed();
    dormancy::update(settings::admission());
    status::warn_if_all_bypass();
  }
}

// False if the system has no thread left.
bool start_watcher() {
  stopping = false;
  try {
    watcher = std::thread(watch);
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

int refuse_to_load(const char *why) {
  my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_ERROR_LOG, why);
  return 1;
}

void warn(const char *what) { my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_ERROR_LOG_ONLY | ME_WARNING, what); }

int init(void *) {
  if (flifo_abi_check(FLIFO_ABI_VERSION) != FLIFO_OK) return refuse_to_load(flifo_last_error());
  if (const char *missing = server::find()) warn(missing);
  flifo_admission_t admission;
  if (const char *wrong = settings::open(admission)) return refuse_to_load(wrong);
  status::open();
  lifecycle::open();
  if (!start_watcher()) {
    settings::close();
    return refuse_to_load("the system cannot start another thread; raise its limit (ulimit -u, pids.max), then install again");
  }
  connections::open(admission);
  if (server::hook_waits(lifecycle::on_wait_begin, lifecycle::on_wait_end)) status::set_level("statements and waits");
  if (!stages::hook(lifecycle::on_stage))
    warn("this server does not export its stages: slots are kept while commits wait for the binary log and for syncs");
  return 0;
}

// Called when no statement uses the plugin any more. A wait may end later: it finds no connection.
int deinit(void *) {
  server::unhook_waits();
  stopping = true;
  watcher.join();
  dormancy::close();
  connections::close();
  settings::close();
  // Last, so that INSTALL fails, instead of having no effect, for as long as possible.
  stages::unhook();
  return 0;
}

void on_event(MYSQL_THD thd, unsigned event_class, const void *event) {
  if (event_class == MYSQL_AUDIT_GENERAL_CLASS)
    lifecycle::on_general(thd, *static_cast<const mysql_event_general *>(event));
  else if (event_class == MYSQL_AUDIT_CONNECTION_CLASS)
    lifecycle::on_connection(thd, *static_cast<const mysql_event_connection *>(event));
}

st_mysql_audit audit = {
    MYSQL_AUDIT_INTERFACE_VERSION,
    lifecycle::on_release,
    on_event,
    {MYSQL_AUDIT_GENERAL_CLASSMASK | MYSQL_AUDIT_CONNECTION_CLASSMASK},
};

}  // namespace

maria_declare_plugin(flifo){
    MYSQL_AUDIT_PLUGIN,
    &audit,
    "flifo",
    "the flifo developers",
    "Admission scheduler: peak throughput with any number of connections",
    PLUGIN_LICENSE_GPL,
    init,
    deinit,
    0x0001,
    status::variables,
    settings::variables,
    FLIFO_PLUGIN_VERSION,
    MariaDB_PLUGIN_MATURITY_GAMMA,
} maria_declare_plugin_end;
