// flifo for MariaDB: an admission scheduler for every table the server has.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// An audit plugin sees where statements begin and end, and the server's thread scheduler is asked to tell of its
// waits. Between the two, at most `flifo_thread_concurrency` statements run at a time, and some reads more while nobody queues.

#include "connection.h"
#include "queueing.h"
#include "server.h"
#include "settings.h"
#include "lending.h"
#include "stages.h"
#include "statement.h"
#include "status.h"
#include "waits.h"

#include <mysql/plugin_audit.h>
#include <mysqld_error.h>

namespace {

using namespace flifo;

constexpr const char *WHOLE = "statements and waits";
constexpr const char *STATEMENTS_ONLY = "statements";

int refuse_to_load(const char *why) {
  my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_ERROR_LOG, why);
  return 1;
}

void warn(const char *what) { my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_ERROR_LOG_ONLY | ME_WARNING, what); }

void on_stage(MYSQL_THD thd, stages::Stage stage) {
  switch (stage) {
    case stages::Stage::WorkDone:
      return statement::on_work_done(thd);
    case stages::Stage::Commit:
      return waits::commit_begins(thd);
    case stages::Stage::CommitOver:
      return waits::commit_is_over(thd);
    default:
      return;
  }
}

int init(void *) {
  if (flifo_abi_check(FLIFO_ABI_VERSION) != FLIFO_OK) return refuse_to_load(flifo_last_error());
  if (const char *missing = server::find()) warn(missing);
  flifo_admission_t admission;
  if (const char *wrong = settings::open(admission)) return refuse_to_load(wrong);
  if (!queueing::start_watching()) {
    settings::close();
    return refuse_to_load("the system has no thread left");
  }
  if (!lending::start_watching()) {
    queueing::stop_watching();
    settings::close();
    return refuse_to_load("the system has no thread left");
  }
  statement::forget_counts();
  connections::open(admission);
  status::level = server::waits_can_be_hooked() ? WHOLE : STATEMENTS_ONLY;
  if (server::waits_can_be_hooked()) server::hook_waits(waits::begin, waits::end);
  if (!stages::hook(on_stage))
    warn("this server does not tell of its stages: places are kept while commits wait for the binary log, and for syncs");
  return 0;
}

// Called when no statement uses the plugin any more. Waits may: they find no connection, or one that is over.
int deinit(void *) {
  stages::unhook();
  if (server::waits_can_be_hooked()) server::unhook_waits();
  lending::stop_watching();
  queueing::stop_watching();
  connections::close();
  settings::close();
  return 0;
}

st_mysql_audit audit = {
    MYSQL_AUDIT_INTERFACE_VERSION,
    statement::on_release,
    statement::on_event,
    {MYSQL_AUDIT_GENERAL_CLASSMASK | MYSQL_AUDIT_CONNECTION_CLASSMASK},
};

}  // namespace

maria_declare_plugin(flifo){
    MYSQL_AUDIT_PLUGIN,
    &audit,
    "flifo",
    "the flifo developers",
    "Admission scheduler: peak throughput however many connections",
    PLUGIN_LICENSE_GPL,
    init,
    deinit,
    0x0001,
    status::variables,
    settings::variables,
    FLIFO_PLUGIN_VERSION,
    MariaDB_PLUGIN_MATURITY_GAMMA,
} maria_declare_plugin_end;
