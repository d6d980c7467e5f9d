// How a thread of the server queues: seen in the processlist, and open to KILL.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_QUEUEING_H
#define FLIFO_QUEUEING_H

#include "connection.h"

namespace flifo::queueing {

// Enters, and queues if there is no place. FLIFO_CANCELLED if it was killed meanwhile.
flifo_status_t enter(Connection &connection, MYSQL_THD thd);

// How many are in `enter` now.
unsigned length();

// Starts the thread that looks for killed statements in the queue. False if the system has no thread for it.
bool start_watching();

// Ends it.
void stop_watching();

}  // namespace flifo::queueing

#endif
