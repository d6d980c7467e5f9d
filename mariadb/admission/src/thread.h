// The core's opaque thread is this server's THD.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "exports.h"
#include "server.h"

namespace flifo {

inline server::Thread *thread_of(MYSQL_THD thd) { return reinterpret_cast<server::Thread *>(thd); }
inline MYSQL_THD thd_of(server::Thread *thread) { return reinterpret_cast<MYSQL_THD>(thread); }

}  // namespace flifo
