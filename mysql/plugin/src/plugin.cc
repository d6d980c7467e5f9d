// flifo for MySQL: an admission scheduler for every storage engine.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// At most `flifo_thread_concurrency` statements run at once. This file declares the plugin, and has the audit events that show where
// statements begin and end. `waits` has the server's calls around waits.
//
//   event                     what happens
//   QUERY_START               the statement acquires a slot, or queues; its text and session decide how
//   QUERY_STATUS_END          the slot is released, before the commit of a statement that is a transaction
//   COMMAND_END               the same, for what began and reported no end
//   CONNECTION_CHANGE_USER    the account's privileges are looked up anew
//   CONNECTION_DISCONNECT     the connection ends
//
// GENERAL_STATUS is not used: a prepared CALL has it after each statement of the procedure.
//
// Failure: a server whose plugin interface has another layout, a wrong option, or no thread for the watcher keep the plugin from
// being loaded, and the error log says why. What else the server lacks lowers `Flifo_level`, and the error log names it.

#include "connection.h"
#include "queueing.h"
#include "server.h"
#include "settings.h"
#include "status.h"
#include "waits.h"

#include "text.h"

#include <signal.h>

#include <atomic>
#include <system_error>
#include <thread>

namespace {

using namespace flifo;

std::thread watcher;
std::atomic<bool> stopping;
// `init` has succeeded, and `deinit` has not run since.
bool is_loaded;

void watch() {
  while (!stopping.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(queueing::WATCHED_EVERY);
    queueing::cancel_killed();
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

// While this lives, new threads are born with all signals blocked: the server's signals are for its own thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

 private:
  sigset_t before;
};

int refuse_to_load(const char *why) {
  server::log_error(why);
  return 1;
}

int init(void *plugin) {
  server::open_log(plugin);
  if (const char *misfit = server::find_misfit()) return refuse_to_load(misfit);
  if (flifo_abi_check(FLIFO_ABI_VERSION) != FLIFO_OK) return refuse_to_load(flifo_last_error());
  if (const char *missing = server::find()) server::log_warning(missing);
  const SignalsBlocked blocked;
  flifo_admission_t admission;
  if (const char *wrong = settings::open(admission)) return refuse_to_load(wrong);
  if (!start_watcher()) {
    settings::close();
    return refuse_to_load("the system cannot start another thread; raise its limit (ulimit -u, pids.max), then install again");
  }
  queueing::open();
  connections::open(admission);
  status::set_level(waits::hook() ? "statements and waits" : "statements");
  is_loaded = true;
  return 0;
}

// Called when no connection uses the plugin any more, and after `init` has failed.
int deinit(void *) {
  if (!is_loaded) return 0;
  is_loaded = false;
  waits::unhook();
  stopping = true;
  watcher.join();
  connections::close();
  settings::close();
  return 0;
}

// The text of a statement, which may be missing.
abi::Text text_of(const abi::QueryEvent &event) { return event.query.str == nullptr ? abi::Text{"", 0} : event.query; }

// UNINSTALL PLUGIN must run when all slots are taken, too.
bool is_uninstall(const abi::Text &text) { return Lexer(text.str, text.str + text.length).next().is("uninstall"); }

void see_transaction(Connection &connection, bool is_in) {
  if (connection.is_in_transaction == is_in) return;
  connection.is_in_transaction = is_in;
  flifo_set_in_transaction(connection.session, is_in);
  flifo_set_class(connection.session, is_in ? FLIFO_CLASS_FIRST : FLIFO_CLASS_NORMAL);
}

// Returns other than 0 if the statement is refused or was killed.
int acquire(Connection &connection, THD *thd, Purpose purpose) {
  see_transaction(connection, server::is_in_transaction(thd));
  if (flifo_try_enter(connection.session) != FLIFO_NO_SLOT) return 0;
  if (purpose == Purpose::URGENT) {
    flifo_enter_forced(connection.session);
    return 0;
  }
  const flifo_status_t status = queueing::enter(connection, thd);
  if (status == FLIFO_OK) return 0;
  // Others may wait for what a transaction has locked.
  const bool may_refuse = purpose == Purpose::WORK && !connection.is_in_transaction;
  if (status != FLIFO_CANCELLED && (!queueing::is_refusal(status) || !may_refuse)) {
    flifo_enter_forced(connection.session);
    return 0;
  }
  queueing::fail(thd, status);
  return 1;
}

int on_begin(THD *thd, const abi::QueryEvent &event) {
  Connection *connection = connections::get(thd);
  if (connection == nullptr) return 0;
  // Inside a text EXECUTE.
  if (connection->depth++ != 0) return 0;
  if (!settings::is_on()) return 0;
  const abi::Text text = text_of(event);
  const Text statement(text.str, static_cast<unsigned>(text.length));
  if (!connection->is_account_known) connection->is_administrator = server::is_administrator(thd);
  // A new role counts from the next statement on.
  connection->is_account_known = !statement.sets_role();
  if (connection->is_administrator) return 0;
  const int refused = acquire(*connection, thd, is_uninstall(text) ? Purpose::URGENT : statement.purpose());
  if (refused != 0) connection->depth = 0;
  return refused;
}

void release(Connection &connection) {
  connection.depth = 0;
  // Without a slot it does nothing.
  flifo_exit(connection.session);
}

void on_end(THD *thd) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr) return;
  if (connection->depth > 1)
    connection->depth--;
  else
    release(*connection);
}

void on_command_end(THD *thd) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr) return;
  release(*connection);
  connection->waits = 0;
}

int on_event(THD *thd, abi::AuditClass event_class, const void *event) {
  const int kind = static_cast<const abi::AnyEvent *>(event)->kind;
  switch (event_class) {
    case abi::AuditClass::QUERY:
      if (kind == abi::QUERY_START) return on_begin(thd, *static_cast<const abi::QueryEvent *>(event));
      if (kind == abi::QUERY_STATUS_END) on_end(thd);
      return 0;
    case abi::AuditClass::COMMAND:
      if (kind == abi::COMMAND_END) on_command_end(thd);
      return 0;
    case abi::AuditClass::CONNECTION:
      if (kind == abi::CONNECTION_DISCONNECT) connections::end(thd);
      if (kind == abi::CONNECTION_CHANGE_USER)
        if (Connection *connection = connections::find(thd)) connection->is_account_known = false;
      return 0;
  }
  return 0;
}

abi::Audit audit{
    abi::AUDIT_INTERFACE_VERSION,
    nullptr,
    on_event,
    {0, abi::CONNECTION_DISCONNECT | abi::CONNECTION_CHANGE_USER, 0, 0, 0, 0, 0, 0, abi::COMMAND_END,
     abi::QUERY_START | abi::QUERY_STATUS_END},
};

}  // namespace

extern "C" {
extern int _mysql_plugin_interface_version_, _mysql_sizeof_struct_st_plugin_;
extern abi::Plugin _mysql_plugin_declarations_[];

int _mysql_plugin_interface_version_ = abi::PLUGIN_INTERFACE_VERSION;
int _mysql_sizeof_struct_st_plugin_ = sizeof(abi::Plugin);
abi::Plugin _mysql_plugin_declarations_[] = {
    {abi::AUDIT_PLUGIN, &audit, "flifo", "the flifo developers", "Admission scheduler: peak throughput with any number of connections",
     abi::LICENSE_GPL, init, nullptr, deinit, 0x0001, status::variables, settings::variables, nullptr, 0},
    {},
};
}
