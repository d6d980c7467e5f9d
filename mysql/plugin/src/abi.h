// What MySQL's plugin interface looks like in memory: only what this plugin uses.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Written from the documented interface, so that a build needs no file of MySQL. Every fact about a layout is asserted here, and
// `exports::find_misfit` compares what the running server exports. Interface versions: plugin 0x010B, audit 0x0401 (MySQL 8.0 to
// 9.7). Structs have the layout of x86-64 and of every other 64-bit Unix.
#pragma once

#include <cstddef>

// The server's own class: plugins see only pointers to it.
class THD;

namespace flifo::abi {

static_assert(sizeof(void *) == 8 && sizeof(long) == 8 && sizeof(int) == 4, "MySQL's plugin interface is declared for 64-bit Unix");

constexpr int PLUGIN_INTERFACE_VERSION = 0x010B, AUDIT_INTERFACE_VERSION = 0x0401;
constexpr int AUDIT_PLUGIN = 5, LICENSE_GPL = 1;

struct Text {
  const char *str;
  size_t length;
};

// A status variable.
enum class Show : int { UNDEF = 0, LONGLONG = 4, CHARS = 5, ARRAY = 7, FUNC = 8 };
struct ShowVariable {
  const char *name;
  // `LONGLONG`: an unsigned long long; `CHARS`: text; `ARRAY`: variables up to one without a name; `FUNC`: a `ShowFunction`.
  void *value;
  Show type;
  int scope;
};
constexpr int SHOW_GLOBAL = 1;
using ShowFunction = int (*)(THD *, ShowVariable *, char *buffer);
static_assert(sizeof(ShowVariable) == 24 && offsetof(ShowVariable, type) == 16 && offsetof(ShowVariable, scope) == 20);

// A value that a client gives to a system variable.
struct Value {
  int (*type)(Value *);
  const char *(*text)(Value *, char *buffer, int *length);
  int (*real)(Value *, double *);
  // Other than 0: it is NULL.
  int (*integer)(Value *, long long *);
  int (*is_unsigned)(Value *);
};
static_assert(offsetof(Value, text) == 8 && offsetof(Value, integer) == 24);

// The names of an enumeration's values.
struct Names {
  size_t count;
  const char *name;
  const char **names;
  unsigned *lengths;
};
static_assert(sizeof(Names) == 32 && offsetof(Names, names) == 16);

// What all system variables begin with. `check` returns 0 and fills `save` if the value is allowed.
struct Variable {
  int flags;
  const char *name, *comment;
  int (*check)(THD *, Variable *, void *save, Value *);
  void (*update)(THD *, Variable *, void *variable, const void *save);
};
static_assert(sizeof(Variable) == 40 && offsetof(Variable, check) == 24);

constexpr int VARIABLE_BOOL = 0x0001, VARIABLE_INT = 0x0002, VARIABLE_ENUM = 0x0006, VARIABLE_UNSIGNED = 0x0080;
// Each session has a value of its own; the server's command line has no option for it; the option needs no value.
constexpr int VARIABLE_OF_SESSION = 0x0100, VARIABLE_NO_OPTION = 0x0800, VARIABLE_OPTIONAL_VALUE = 0x2000;

struct UnsignedVariable : Variable {
  unsigned *value;
  unsigned initial, least, most, multiple_of;
};
static_assert(sizeof(UnsignedVariable) == 64);

struct EnumVariable : Variable {
  unsigned long *value;
  unsigned long initial;
  const Names *names;
};
static_assert(sizeof(EnumVariable) == 64);

// The server's values are `bool`: 0 or 1.
struct BoolVariable : Variable {
  char *value;
  char initial;
};
static_assert(sizeof(BoolVariable) == 56);

// The server fills in `offset` and `resolve`.
struct SessionBoolVariable : Variable {
  int offset;
  bool initial;
  bool *(*resolve)(THD *, int offset);
};
static_assert(sizeof(SessionBoolVariable) == 56 && sizeof(bool) == 1);

struct Plugin {
  int type;
  void *info;
  const char *name, *author, *description;
  int license;
  int (*init)(void *plugin);
  int (*check_uninstall)(void *plugin);
  int (*deinit)(void *plugin);
  unsigned version;
  const ShowVariable *status_variables;
  Variable **system_variables;
  void *reserved;
  unsigned long flags;
};
static_assert(sizeof(Plugin) == 112 && offsetof(Plugin, init) == 48 && offsetof(Plugin, flags) == 104);

// Audit events: classes, and of each class the kinds that are used, which are bits of its mask.
enum class AuditClass : int { CONNECTION = 1, COMMAND = 8, QUERY = 9 };
constexpr int AUDIT_CLASSES = 13;
constexpr int CONNECTION_CONNECT = 1 << 0, CONNECTION_DISCONNECT = 1 << 1, CONNECTION_CHANGE_USER = 1 << 2;
constexpr int COMMAND_END = 1 << 1;
constexpr int QUERY_START = 1 << 0, QUERY_NESTED_START = 1 << 1, QUERY_STATUS_END = 1 << 2;

// What the events of all classes begin with. `status`: 0, or the number of an error.
struct AnyEvent {
  int kind;
  int status;
};

struct CommandEvent {
  int kind;
  int status;
  unsigned long connection_id;
  // The protocol's number.
  int command;
};
static_assert(offsetof(CommandEvent, command) == 16);
constexpr int COMMAND_RESET_CONNECTION = 31;

struct QueryEvent {
  int kind;
  int status;
  unsigned long connection_id;
  int sql_command;
  Text query;
  const void *character_set;
};
static_assert(offsetof(QueryEvent, connection_id) == 8 && offsetof(QueryEvent, query) == 24 && sizeof(QueryEvent) == 48);

struct Audit {
  int interface_version;
  void (*release)(THD *);
  // Other than 0 refuses, where the event may be refused.
  int (*notify)(THD *, AuditClass, const void *event);
  unsigned long masks[AUDIT_CLASSES];
};
static_assert(sizeof(Audit) == 128 && offsetof(Audit, masks) == 24);

// A stage of a statement, as the performance schema knows it.
struct Stage {
  unsigned key;
  const char *name;
  unsigned flags;
  const char *documentation;
};
static_assert(sizeof(Stage) == 32 && offsetof(Stage, name) == 8);

// The head of the performance schema's service for stages.
struct StageService {
  void (*register_stages)(const char *category, Stage **stages, int count);
};

// The server's calls around its waits (`Connection_handler_manager::event_functions`).
struct WaitFunctions {
  void (*begin)(THD *, int kind);
  void (*end)(THD *);
  void (*on_kill)(THD *);
};
static_assert(sizeof(WaitFunctions) == 24);

// Kinds of wait.
constexpr int WAIT_SLEEP = 1, WAIT_DISK = 2, WAIT_ROW_LOCK = 3, WAIT_GLOBAL_LOCK = 4, WAIT_METADATA_LOCK = 5, WAIT_TABLE_LOCK = 6,
              WAIT_USER_LOCK = 7, WAIT_GROUP_COMMIT = 9, WAIT_SYNC = 10;

// Errors that clients know.
constexpr unsigned ERROR_LOCK_WAIT_TIMEOUT = 1205, ERROR_ACCESS_DENIED = 1227, ERROR_WRONG_VALUE = 1231, ERROR_INTERRUPTED = 1317;

// Bits of a session's options, the same in every MySQL since 5.1.
constexpr long long OPTION_NOT_AUTOCOMMIT = 1LL << 19, OPTION_BEGIN = 1LL << 20, OPTION_TABLE_LOCK = 1LL << 21;

}  // namespace flifo::abi
