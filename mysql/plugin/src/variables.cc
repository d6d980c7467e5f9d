// SPDX-License-Identifier: GPL-2.0-only

#include "variables.h"

#include "exports.h"
#include "settings.h"
#include "status.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace flifo::variables {
namespace {

using settings::values;

const abi::Names concurrencies{settings::AUTO + 1, "", settings::concurrency_names, nullptr};
const abi::Names policies{settings::POLICY_COUNT, "", settings::policy_names, nullptr};

template <class T>
void update(THD *, abi::Variable *, void *variable, const void *save) {
  *static_cast<T *>(variable) = *static_cast<const T *>(save);
  if (const char *wrong = settings::apply()) exports::log_warning(wrong);
}

// The text of a value for comparison and for errors, cut off if it is long; "NULL" if it has none.
struct ValueText {
  char text[32];

  explicit ValueText(abi::Value *value) {
    char buffer[sizeof text];
    int length = sizeof buffer;
    const char *given = value->text(value, buffer, &length);
    if (given == nullptr) given = "NULL", length = 4;
    const size_t kept = std::min<size_t>(static_cast<size_t>(length), sizeof text - 1);
    memcpy(text, given, kept);
    text[kept] = '\0';
    // Cut off: it must not equal any allowed value.
    if (kept < static_cast<size_t>(length)) memcpy(text + sizeof text - 4, "...", 4);
  }
};

// Refuses the value unless `allowed`, what is allowed instead, is null.
int refuse_unless_null(const char *name, const char *allowed, abi::Value *value) {
  if (allowed == nullptr) return 0;
  char line[200];
  snprintf(line, sizeof line, "%s must be %s, not '%s'", name, allowed, ValueText(value).text);
  exports::fail(abi::ERROR_WRONG_VALUE, line);
  return 1;
}

int check_concurrency(THD *, abi::Variable *, void *save, abi::Value *value) {
  const char *allowed = settings::parse_concurrency(ValueText(value).text, *static_cast<unsigned long *>(save));
  return refuse_unless_null("flifo_thread_concurrency", allowed, value);
}

int check_policy(THD *, abi::Variable *, void *save, abi::Value *value) {
  const char *allowed = settings::parse_policy(ValueText(value).text, *static_cast<unsigned long *>(save));
  return refuse_unless_null("flifo_policy", allowed, value);
}

// Without this check the server takes the nearest allowed number, with a warning that few clients show.
template <const settings::Number &SETTING>
int check_number(THD *, abi::Variable *, void *save, abi::Value *value) {
  long long number;
  // No setting may be negative.
  if (value->integer(value, &number) != 0) number = -1;
  if (refuse_unless_null(SETTING.name, settings::check(SETTING, number), value) != 0) return 1;
  *static_cast<unsigned *>(save) = static_cast<unsigned>(number);
  return 0;
}

constexpr char RESERVE_SLOTS[] = "flifo_reserve_slots", BYPASS[] = "flifo_bypass";

template <const char *NAME>
int check_switch(THD *, abi::Variable *, void *save, abi::Value *value) {
  return refuse_unless_null(NAME, settings::parse_switch(ValueText(value).text, *static_cast<char *>(save)), value);
}

int check_bypass(THD *thd, abi::Variable *variable, void *save, abi::Value *value) {
  if (check_switch<BYPASS>(thd, variable, save, value) != 0) return 1;
  if (*static_cast<char *>(save) == 0 || exports::is_administrator(thd)) return 0;
  exports::fail(abi::ERROR_ACCESS_DENIED, "Access denied; flifo_bypass needs the privilege CONNECTION_ADMIN or SUPER");
  return 1;
}

constexpr int UNSIGNED = abi::VARIABLE_INT | abi::VARIABLE_UNSIGNED;

abi::EnumVariable thread_concurrency{
    {abi::VARIABLE_ENUM, "thread_concurrency", settings::CONCURRENCY_HELP, check_concurrency, update<unsigned long>},
    &values.thread_concurrency, settings::AUTO, &concurrencies};
abi::EnumVariable policy{{abi::VARIABLE_ENUM, "policy", settings::POLICY_HELP, check_policy, update<unsigned long>},
                         &values.policy, settings::DEFAULT_POLICY, &policies};

// A system variable that is a number, with the bounds, the default and the text of its setting.
template <const settings::Number &SETTING>
abi::UnsignedVariable number(const char *name, unsigned &value) {
  return {{UNSIGNED, name, SETTING.help, check_number<SETTING>, update<unsigned>}, &value, SETTING.def, SETTING.min, SETTING.max, 0};
}
auto quantum = number<settings::QUANTUM>("quantum", values.quantum_us);
auto queue_timeout = number<settings::QUEUE_TIMEOUT>("queue_timeout", values.queue_timeout_ms);
auto max_queue = number<settings::MAX_QUEUE>("max_queue", values.max_queue);
auto stall_limit = number<settings::STALL_LIMIT>("stall_limit", values.stall_limit_ms);
auto io_depth = number<settings::IO_DEPTH>("io_depth", values.io_depth);

abi::BoolVariable reserve{{abi::VARIABLE_BOOL | abi::VARIABLE_OPTIONAL_VALUE, "reserve_slots", settings::RESERVE_SLOTS_HELP,
                           check_switch<RESERVE_SLOTS>, update<char>},
                          &values.reserve_slots, 0};
abi::SessionBoolVariable bypass{
    {abi::VARIABLE_BOOL | abi::VARIABLE_OF_SESSION | abi::VARIABLE_NO_OPTION, "bypass",
     "Run the session's statements without admission; needs CONNECTION_ADMIN or SUPER", check_bypass, nullptr},
    -1, false, nullptr};

// What one SHOW STATUS shows. The thread that fills it reads it before it fills it again.
class Shown {
 public:
  abi::ShowVariable *fill() {
    const size_t length = status::report(rows);
    for (size_t at = 0; at < length; at++) variables[at] = variable_of(rows[at]);
    variables[length] = {nullptr, nullptr, abi::Show::UNDEF, abi::SHOW_GLOBAL};
    return variables;
  }

 private:
  static abi::ShowVariable variable_of(status::Row &row) {
    if (row.text != nullptr) return {row.name, const_cast<char *>(row.text), abi::Show::CHARS, abi::SHOW_GLOBAL};
    return {row.name, &row.number, abi::Show::LONGLONG, abi::SHOW_GLOBAL};
  }

  status::Row rows[status::ROWS_MAX];
  abi::ShowVariable variables[status::ROWS_MAX + 1];
};

int show(THD *, abi::ShowVariable *variable, char *) {
  static thread_local Shown shown;
  variable->type = abi::Show::ARRAY;
  variable->value = shown.fill();
  return 0;
}

}  // namespace

bool has_bypass_set(THD *thd) { return bypass.resolve != nullptr && *bypass.resolve(thd, bypass.offset); }

abi::Variable *system[] = {&thread_concurrency, &policy,   &quantum, &queue_timeout, &max_queue,
                           &stall_limit,        &io_depth, &reserve, &bypass,        nullptr};

const abi::ShowVariable status_rows[] = {
    // FUNC: the server calls it whatever the pattern of SHOW STATUS LIKE is.
    {"Flifo", reinterpret_cast<void *>(show), abi::Show::FUNC, abi::SHOW_GLOBAL},
    {nullptr, nullptr, abi::Show::UNDEF, 0},
};

}  // namespace flifo::variables
