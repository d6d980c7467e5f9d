// A statement under way: how it is admitted, how it waits, and how it ends.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// States of a statement:
//
//   is_active  bypasses  kept_out  meaning
//   no         no        any       none is under way
//   yes        no        OK        was admitted; it holds a slot unless it waits or the limit is 0
//   yes        no        not OK    was refused, or killed in the queue; the server ends it
//   yes        yes       OK        is not subject to admission
//
// What happens when no slot is free, the first that applies:
//
//   the text is URGENT, or `init_connect`   enters by force
//   may hold locks                          queues as a holder; enters by force where it would be refused
//   the text is MINOR                       queues; enters by force where it would be refused
//   else                                    queues; fails if it is refused
#pragma once

#include "holdings.h"
#include "server.h"
#include "text.h"

#include <flifo.h>

namespace flifo {

struct Connection;

struct Statement {
  bool is_active, bypasses;
  // A statement inside it has committed: the next one acquires a slot anew.
  bool must_reacquire;
  // Why it has no slot: refused or killed in the queue. FLIFO_OK: neither.
  flifo_status_t kept_out;
};

namespace statements {

// A client's statement begins and acquires a slot. `rest` begins with it, and goes on to the packet's end. `id`: 0 if not known.
void begin_admitted(Connection &connection, server::Thread *thread, unsigned long long id, const Text &rest);
// A statement begins that is not subject to admission.
void begin_bypassing(Connection &connection, unsigned long long id);
// A statement begins inside an admitted one.
void begin_inside(Connection &connection, server::Thread *thread);
// Ends the statement and the commit it is in, and releases its slot.
void end(Connection &connection);
// The same, and its last events are missing: what it has locked is not known.
void end_unseen(Connection &connection);
// A statement that touches no table, as SET does, is finished by the server although it was killed, and the kill is
// forgotten: the next one of the procedure would run without a slot. This fails the statement again.
void keep_out(const Connection &connection, server::Thread *thread);
// A wait begins, ends.
void begin_wait(Connection &connection, flifo_wait_kind_t kind);
void end_wait(Connection &connection);
// How the statement has ended, or ended its work.
Outcome outcome_of(const Connection &connection, server::Thread *thread, bool has_failed);

}  // namespace statements
}  // namespace flifo
