// SPDX-License-Identifier: GPL-2.0-only

#include "variables.h"

#include "server.h"
#include "settings.h"
#include "status.h"

#include <mysqld_error.h>
#include <typelib.h>

#include <algorithm>
#include <cstring>

namespace flifo::variables {
namespace {

using settings::values;

// Not an initializer, since newer servers have more members.
TYPELIB typelib(unsigned count, const char **names) {
  TYPELIB all{};
  all.count = count;
  all.name = "";
  all.type_names = names;
  return all;
}

TYPELIB concurrencies = typelib(settings::AUTO + 1, settings::concurrency_names);
TYPELIB policies = typelib(settings::POLICY_COUNT, settings::policy_names);

template <class T>
void update(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *save) {
  *static_cast<T *>(variable) = *static_cast<const T *>(save);
  if (const char *wrong = settings::apply())
    my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_WARNING | ME_ERROR_LOG, wrong);
}

// The text of a value for comparison and for errors, cut off if it is long; "NULL" if it has none.
struct ValueText {
  char text[32];

  explicit ValueText(st_mysql_value *value) {
    char buffer[sizeof text];
    int length = sizeof buffer;
    const char *given = value->val_str(value, buffer, &length);
    if (given == nullptr) given = "NULL", length = 4;
    const size_t kept = std::min<size_t>(static_cast<size_t>(length), sizeof text - 1);
    memcpy(text, given, kept);
    text[kept] = '\0';
    // Cut off: it must not equal any allowed value.
    if (kept < static_cast<size_t>(length)) memcpy(text + sizeof text - 4, "...", 4);
  }
};

// Refuses the value unless `allowed`, what is allowed instead, is null.
int refuse_unless_null(const char *name, const char *allowed, st_mysql_value *value) {
  if (allowed == nullptr) return 0;
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "%s must be %s, not '%s'", 0, name, allowed, ValueText(value).text);
  return 1;
}

int check_concurrency(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const char *allowed = settings::parse_concurrency(ValueText(value).text, *static_cast<unsigned long *>(save));
  return refuse_unless_null("flifo_thread_concurrency", allowed, value);
}

int check_policy(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const char *allowed = settings::parse_policy(ValueText(value).text, *static_cast<unsigned long *>(save));
  return refuse_unless_null("flifo_policy", allowed, value);
}

// Without this check the server takes the nearest allowed number, with a warning that few clients show.
template <const settings::Number &SETTING>
int check_number(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  long long number;
  // No setting may be negative.
  if (value->val_int(value, &number) != 0) number = -1;
  if (refuse_unless_null(SETTING.name, settings::check(SETTING, number), value) != 0) return 1;
  *static_cast<unsigned *>(save) = static_cast<unsigned>(number);
  return 0;
}

constexpr char RESERVE_SLOTS[] = "flifo_reserve_slots", BYPASS[] = "flifo_bypass";

template <const char *NAME>
int check_switch(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return refuse_unless_null(NAME, settings::parse_switch(ValueText(value).text, *static_cast<char *>(save)), value);
}

int check_bypass(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value) {
  if (check_switch<BYPASS>(thd, variable, save, value) != 0) return 1;
  if (*static_cast<char *>(save) == 0 || exports::may_bypass(thd)) return 0;
  my_error(ER_SPECIFIC_ACCESS_DENIED_ERROR, 0, "CONNECTION ADMIN, SUPER, REPLICATION SLAVE");
  return 1;
}

MYSQL_SYSVAR_ENUM(thread_concurrency, values.thread_concurrency, PLUGIN_VAR_RQCMDARG, settings::CONCURRENCY_HELP, check_concurrency,
                  update<unsigned long>, settings::AUTO, &concurrencies);
MYSQL_SYSVAR_ENUM(policy, values.policy, PLUGIN_VAR_RQCMDARG, settings::POLICY_HELP, check_policy, update<unsigned long>,
                  settings::DEFAULT_POLICY, &policies);

// A system variable that is a number, with the bounds, the default and the text of its setting.
#define NUMBER_VARIABLE(NAME, VALUE, SETTING)                                                                          \
  MYSQL_SYSVAR_UINT(NAME, values.VALUE, PLUGIN_VAR_RQCMDARG, settings::SETTING.help, check_number<settings::SETTING>, \
                    update<unsigned>, settings::SETTING.def, settings::SETTING.min, settings::SETTING.max, 0)
NUMBER_VARIABLE(quantum, quantum_us, QUANTUM);
NUMBER_VARIABLE(queue_timeout, queue_timeout_ms, QUEUE_TIMEOUT);
NUMBER_VARIABLE(max_queue, max_queue, MAX_QUEUE);
NUMBER_VARIABLE(stall_limit, stall_limit_ms, STALL_LIMIT);
NUMBER_VARIABLE(io_depth, io_depth, IO_DEPTH);
#undef NUMBER_VARIABLE

MYSQL_SYSVAR_BOOL(reserve_slots, values.reserve_slots, PLUGIN_VAR_OPCMDARG, settings::RESERVE_SLOTS_HELP,
                  check_switch<RESERVE_SLOTS>, update<char>, 0);
MYSQL_THDVAR_BOOL(bypass, PLUGIN_VAR_NOCMDOPT,
                  "Run the session's statements without admission; needs CONNECTION ADMIN, SUPER or REPLICATION SLAVE", check_bypass, nullptr, 0);

// What one SHOW STATUS shows. The thread that fills it reads it before it fills it again.
class Shown {
 public:
  st_mysql_show_var *fill() {
    const size_t length = status::report(rows);
    for (size_t at = 0; at < length; at++) variables[at] = variable_of(rows[at]);
    variables[length] = {nullptr, nullptr, SHOW_UNDEF};
    return variables;
  }

 private:
  static st_mysql_show_var variable_of(status::Row &row) {
    if (row.text != nullptr) return {row.name, const_cast<char *>(row.text), SHOW_CHAR};
    return {row.name, &row.number, SHOW_ULONGLONG};
  }

  status::Row rows[status::ROWS_MAX];
  st_mysql_show_var variables[status::ROWS_MAX + 1];
};

int show(MYSQL_THD, st_mysql_show_var *variable, void *, system_status_var *, enum_var_type) {
  static thread_local Shown shown;
  variable->type = SHOW_ARRAY;
  variable->value = shown.fill();
  return 0;
}

}  // namespace

bool has_bypass_set(MYSQL_THD thd) { return THDVAR(thd, bypass) != 0; }

st_mysql_sys_var *system[] = {
    MYSQL_SYSVAR(thread_concurrency), MYSQL_SYSVAR(policy),      MYSQL_SYSVAR(quantum),
    MYSQL_SYSVAR(queue_timeout),      MYSQL_SYSVAR(max_queue),   MYSQL_SYSVAR(stall_limit),
    MYSQL_SYSVAR(io_depth),           MYSQL_SYSVAR(reserve_slots), MYSQL_SYSVAR(bypass),
    nullptr,
};

st_mysql_show_var status_rows[] = {
    // SHOW_FUNC: the server calls it whatever the pattern of SHOW STATUS LIKE is.
    {"Flifo", reinterpret_cast<void *>(show), SHOW_FUNC},
    {nullptr, nullptr, SHOW_UNDEF},
};

}  // namespace flifo::variables
