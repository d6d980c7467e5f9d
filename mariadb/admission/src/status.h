// What SHOW GLOBAL STATUS tells of the scheduler.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_STATUS_H
#define FLIFO_STATUS_H

#include "server.h"

namespace flifo::status {

// What the plugin does on this server, for `Flifo_level`.
extern const char *level;

// The variables, for the plugin's declaration.
extern st_mysql_show_var variables[];

}  // namespace flifo::status

#endif
