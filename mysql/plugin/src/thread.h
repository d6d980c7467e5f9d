// The core's opaque thread is this server's THD.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "abi.h"
#include "server.h"

namespace flifo {

inline server::Thread *thread_of(THD *thd) { return reinterpret_cast<server::Thread *>(thd); }
inline THD *thd_of(server::Thread *thread) { return reinterpret_cast<THD *>(thread); }

}  // namespace flifo
