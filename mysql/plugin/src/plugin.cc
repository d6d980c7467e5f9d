// flifo for MySQL: an admission scheduler for every storage engine.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// At most `flifo_thread_concurrency` statements run at once. Audit events show where statements begin and end, the server's wait
// functions where they wait. This file declares the plugin and connects the server's hooks to `events` and `wait_hook`; what decides is
// the core, which no server's name stands in.
//
// Failure: a server whose plugin interface has another layout, a wrong option, or no thread for the watcher keep the plugin from
// being loaded, and the error log says why. What else the server lacks lowers `Flifo_level`, and the error log names it.

#include "core.h"
#include "events.h"
#include "exports.h"
#include "settings.h"
#include "status.h"
#include "variables.h"
#include "wait_hook.h"

#include <signal.h>

namespace {

using namespace flifo;

// `init` has succeeded, and `deinit` has not run since.
bool is_loaded;

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
  exports::log_error(why);
  return 1;
}

int init(void *plugin) {
  exports::open_log(plugin);
  if (const char *misfit = exports::find_misfit()) return refuse_to_load(misfit);
  if (const char *missing = exports::find()) exports::log_warning(missing);
  const SignalsBlocked blocked;
  if (const char *wrong = core::start()) return refuse_to_load(wrong);
  if (wait_hook::hook()) status::set_level("statements and waits");
  is_loaded = true;
  return 0;
}

// Called when no connection uses the plugin any more, and after `init` has failed.
int deinit(void *) {
  if (!is_loaded) return 0;
  is_loaded = false;
  wait_hook::unhook();
  core::stop();
  return 0;
}

}  // namespace

extern "C" {
extern int _mysql_plugin_interface_version_, _mysql_sizeof_struct_st_plugin_;
extern abi::Plugin _mysql_plugin_declarations_[];

int _mysql_plugin_interface_version_ = abi::PLUGIN_INTERFACE_VERSION;
int _mysql_sizeof_struct_st_plugin_ = sizeof(abi::Plugin);
abi::Plugin _mysql_plugin_declarations_[] = {
    {abi::AUDIT_PLUGIN, const_cast<abi::Audit *>(&events::AUDIT), "flifo", "the flifo developers",
     "Admission scheduler: peak throughput with any number of connections", abi::LICENSE_GPL, init, nullptr, deinit, 0x0001,
     variables::status_rows, variables::system, nullptr, 0},
    {},
};
}
