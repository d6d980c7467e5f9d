// SPDX-License-Identifier: GPL-2.0-only

#include "exports.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>

namespace flifo::exports {
namespace {

constexpr char TESTED[] = "9.7.";

void *log_handle;
void (*log_message)(void **plugin, int level, const char *format, ...);

THD *(*current_thd)();
unsigned long (*get_thread_id)(const THD *);
int (*killed)(const void *);
bool (*is_denied_administration)(THD *);
long long (*test_options)(const THD *, long long bits);
int (*sql_command)(const THD *);
const abi::Text *init_connect;
void (*to_stage)(void *, const abi::Stage *, abi::Stage *, const char *function, const char *file, int line);
abi::StageService **stage_service;
void (*print_error)(unsigned error, const char *format, int flags, ...);
void (*send_kill_message)(const THD *);
const abi::WaitFunctions **wait_functions_at;

void *look_up(const char *name) { return dlsym(RTLD_DEFAULT, name); }

void log(bool is_error, const char *line) {
  if (log_message != nullptr)
    log_message(&log_handle, is_error ? 0 : 1, "%s", line);
  else
    fprintf(stderr, "[%s] flifo: %s\n", is_error ? "ERROR" : "Warning", line);
}

// Looks up a function or a variable by its name in the server.
template <class T>
bool set(T &to, const char *name) {
  to = reinterpret_cast<T>(look_up(name));
  return to != nullptr;
}

// The size of a variable that the server exports; 0 if it exports none of that name.
size_t size_of(const char *name) {
  void *address = look_up(name);
  Dl_info info;
  ElfW(Sym) *symbol = nullptr;
  if (address == nullptr || dladdr1(address, &info, reinterpret_cast<void **>(&symbol), RTLD_DL_SYMENT) == 0) return 0;
  return symbol == nullptr ? 0 : symbol->st_size;
}

// The audit plugin that the server's X protocol brings; null if there is none.
const abi::Audit *own_audit() {
  const auto *plugin = static_cast<const abi::Plugin *>(look_up("builtin_mysqlx_plugin"));
  for (; plugin != nullptr && plugin->info != nullptr; plugin++)
    if (plugin->type == abi::AUDIT_PLUGIN) return static_cast<const abi::Audit *>(plugin->info);
  return nullptr;
}

// The same major version, and no older.
bool fits(int servers, int ours) { return servers >> 8 == ours >> 8 && servers >= ours; }

abi::Stage queue_stage{0, "Waiting for admission", 0, "The statement queues for a slot (flifo_thread_concurrency)."};
thread_local abi::Stage stage_before;

// The kinds of statements by their numbers, and the names of their counters. -1: the number is not known.
struct {
  const char *counter;
  Command::Kind kind;
  int number;
} commands[] = {{"select", Command::Kind::SELECT, -1},
                {"commit", Command::Kind::COMMIT, -1},
                {"rollback", Command::Kind::ROLLBACK, -1},
                {"execute_sql", Command::Kind::EXECUTE, -1}};

// Finds the numbers by the server's counters of statements, which lie in the order of the numbers; SELECT is the first.
bool find_commands() {
  const auto *counters = static_cast<const abi::ShowVariable *>(look_up("com_status_vars"));
  const size_t count = size_of("com_status_vars") / sizeof(abi::ShowVariable);
  const auto place_of = [&](const char *name) -> long {
    for (size_t at = 0; at < count; at++)
      if (counters[at].name != nullptr && strcmp(counters[at].name, name) == 0) return reinterpret_cast<long>(counters[at].value);
    return -1;
  };
  const long first = place_of("select");
  bool is_found = first >= 0;
  for (auto &command : commands) {
    const long place = place_of(command.counter);
    is_found = is_found && place >= first;
    command.number = is_found ? static_cast<int>((place - first) / static_cast<long>(sizeof(long long))) : -1;
  }
  return is_found;
}

char misfit[200];

const char *does_not_fit(const char *what, long is, long expected) {
  snprintf(misfit, sizeof misfit, "this server does not fit: %s is %ld, not %ld; use a plugin built for this server", what, is, expected);
  return misfit;
}

}  // namespace

const char *find_misfit() {
  const auto *version = static_cast<const char *>(look_up("server_version"));
  if (version == nullptr || strncmp(version, TESTED, sizeof TESTED - 1) != 0) {
    snprintf(misfit, sizeof misfit, "this server is %.40s, and the plugin is for MySQL 9.7; use a plugin built for this server",
             version == nullptr ? "of an unknown version" : version);
    return misfit;
  }
  const auto *plugin_version = static_cast<const int *>(look_up("builtin_heap_plugin_interface_version"));
  if (plugin_version == nullptr || !fits(*plugin_version, abi::PLUGIN_INTERFACE_VERSION))
    return does_not_fit("the version of the plugin interface", plugin_version == nullptr ? 0 : *plugin_version, abi::PLUGIN_INTERFACE_VERSION);
  const auto *plugin_size = static_cast<const int *>(look_up("builtin_heap_sizeof_struct_st_plugin"));
  if (plugin_size == nullptr || *plugin_size != sizeof(abi::Plugin))
    return does_not_fit("the size of a plugin's declaration", plugin_size == nullptr ? 0 : *plugin_size, sizeof(abi::Plugin));
  const abi::Audit *audit = own_audit();
  if (audit == nullptr || !fits(audit->interface_version, abi::AUDIT_INTERFACE_VERSION))
    return does_not_fit("the version of the audit interface", audit == nullptr ? 0 : audit->interface_version, abi::AUDIT_INTERFACE_VERSION);
  if (const size_t size = size_of("bool_typelib"); size != sizeof(abi::Names)) return does_not_fit("the size of a list of names", size, sizeof(abi::Names));
  if (const size_t size = size_of("status_vars"); size == 0 || size % sizeof(abi::ShowVariable) != 0)
    return does_not_fit("the size of the status variables modulo 24", size == 0 ? -1 : size % sizeof(abi::ShowVariable), 0);
  const auto *stage = static_cast<const abi::Stage *>(look_up("stage_executing"));
  if (const size_t size = size_of("stage_executing"); size != sizeof(abi::Stage)) return does_not_fit("the size of a stage", size, sizeof(abi::Stage));
  if (strcmp(stage->name, "executing") != 0) return does_not_fit("the place of a stage's name", -1, offsetof(abi::Stage, name));
  return nullptr;
}

const char *find() {
  const char *missing = nullptr;
  // What cannot be done without it.
  if (!set(is_denied_administration, "_Z36thd_check_connection_admin_privilegeP3THD"))
    missing = "the server does not export thd_check_connection_admin_privilege: administrators queue like others";
  set(init_connect, "opt_init_connect");
  if (!set(sql_command, "thd_sql_command") || !find_commands())
    missing = "the server does not export thd_sql_command and com_status_vars: transactions that only read count as holders of locks";
  if (!set(test_options, "thd_test_options"))
    missing = "the server does not export thd_test_options: no statement is refused";
  set(stage_service, "psi_stage_service");
  if (stage_service != nullptr && *stage_service != nullptr) {
    abi::Stage *stages[] = {&queue_stage};
    (*stage_service)->register_stages("flifo", stages, 1);
  }
  if (!set(to_stage, "thd_enter_stage") || stage_service == nullptr)
    missing = "the server does not export thd_enter_stage and psi_stage_service: queued statements are not shown";
  set(send_kill_message, "thd_set_kill_status");
  if (!set(killed, "thd_killed")) missing = "the server does not export thd_killed: KILL QUERY does not end a queued statement";
  if (!set(print_error, "_Z15my_printf_errorjPKciz"))
    missing = "the server does not export my_printf_error: refused statements fail with a general error";
  set(get_thread_id, "thd_get_thread_id");
  if (!set(current_thd, "_Z19thd_get_current_thdv"))
    missing = "the server does not export thd_get_current_thd: metadata locks, disk and log waits keep their slots";
  if (!set(wait_functions_at, "_ZN26Connection_handler_manager15event_functionsE") || size_of("_ZN26Connection_handler_manager15event_functionsE") != sizeof(void *)) {
    wait_functions_at = nullptr;
    missing = "the server does not export Connection_handler_manager::event_functions: waits keep their slots";
  }
  return missing;
}

void open_log(void *plugin) {
  log_handle = plugin;
  set(log_message, "_Z21my_plugin_log_messagePPv16plugin_log_levelPKcz");
}

void log_error(const char *line) { log(true, line); }
void log_warning(const char *line) { log(false, line); }

THD *current() { return current_thd == nullptr ? nullptr : current_thd(); }
unsigned long thread_id(THD *thd) { return get_thread_id == nullptr ? 0 : get_thread_id(thd); }
bool is_killed(THD *thd) { return killed != nullptr && killed(thd) != 0; }
bool is_administrator(THD *thd) { return is_denied_administration != nullptr && !is_denied_administration(thd); }
long long options(THD *thd, long long bits) { return test_options == nullptr ? bits : test_options(thd, bits); }

Command::Kind command_kind(THD *thd) {
  const int number = sql_command == nullptr ? -1 : sql_command(thd);
  for (const auto &command : commands)
    if (number >= 0 && command.number == number) return command.kind;
  return Command::Kind::OTHER;
}

bool has_init_connect() { return init_connect != nullptr && init_connect->length != 0; }
bool can_refuse() { return print_error != nullptr && test_options != nullptr; }

void enter_queue_stage(THD *thd) {
  if (to_stage != nullptr) to_stage(thd, &queue_stage, &stage_before, "flifo", "flifo", 0);
}

void leave_queue_stage(THD *thd) {
  if (to_stage != nullptr) to_stage(thd, &stage_before, nullptr, "flifo", "flifo", 0);
}

void fail(unsigned error, const char *text) {
  if (print_error != nullptr) print_error(error, "%s", 0, text);
}

void fail_as_killed(THD *thd) {
  if (send_kill_message != nullptr && is_killed(thd))
    send_kill_message(thd);
  else
    fail(abi::ERROR_INTERRUPTED, "Query execution was interrupted");
}

const abi::WaitFunctions **wait_functions() { return wait_functions_at; }

}  // namespace flifo::exports
