// flifo for MariaDB: an admission scheduler for every storage engine.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// At most `flifo_thread_concurrency` statements run at once. An audit plugin sees where statements begin and end, the
// server's wait callbacks show where they wait, and its stages show where they commit. This file declares the plugin and
// connects the server's hooks to `events`; what decides is the core, which no server's name stands in.
//
// Failure: without wait callbacks or stages the plugin works with less, and warns in the error log. A wrong option, or no
// thread for the watcher, keeps the plugin from being loaded.

#include "core.h"
#include "events.h"
#include "exports.h"
#include "server.h"
#include "stages.h"
#include "status.h"
#include "variables.h"

#include <mysql/plugin_audit.h>
#include <mysqld_error.h>

namespace {

using namespace flifo;

int refuse_to_load(const char *why) {
  my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_ERROR_LOG, why);
  return 1;
}

int init(void *) {
  if (const char *missing = exports::find()) server::warn(missing);
  events::open();
  if (const char *wrong = core::start()) return refuse_to_load(wrong);
  if (exports::hook_waits(events::on_wait_begin, events::on_wait_end)) status::set_level("statements and waits");
  if (!stages::hook(events::on_stage))
    server::warn("this server does not export its stages: slots are kept while commits wait for the binary log and for syncs");
  return 0;
}

// Called when no statement uses the plugin any more. A wait may end later: it finds no connection.
int deinit(void *) {
  exports::unhook_waits();
  core::stop();
  // Last, so that INSTALL fails, instead of having no effect, for as long as possible.
  stages::unhook();
  return 0;
}

void on_event(MYSQL_THD thd, unsigned event_class, const void *event) {
  if (event_class == MYSQL_AUDIT_GENERAL_CLASS)
    events::on_general(thd, *static_cast<const mysql_event_general *>(event));
  else if (event_class == MYSQL_AUDIT_CONNECTION_CLASS)
    events::on_connection(thd, *static_cast<const mysql_event_connection *>(event));
}

st_mysql_audit audit = {
    MYSQL_AUDIT_INTERFACE_VERSION,
    events::on_release,
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
    variables::status_rows,
    variables::system,
    FLIFO_PLUGIN_VERSION,
    MariaDB_PLUGIN_MATURITY_GAMMA,
} maria_declare_plugin_end;
