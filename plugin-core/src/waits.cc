// SPDX-License-Identifier: GPL-2.0-only

#include "waits.h"

#include "connection.h"

namespace flifo::waits {

bool begin(Connection &connection, flifo_wait_kind_t kind) {
  State &state = connection.waits;
  if (state.depth++ >= State::DEPTH_MAX) return false;
  state.kinds[state.depth - 1] = static_cast<unsigned char>(kind);
  flifo_wait_begin(connection.session, kind);
  return flifo_is_running(connection.session) == FLIFO_OK;
}

bool end(Connection &connection) {
  State &state = connection.waits;
  state.depth--;
  if (state.depth >= State::DEPTH_MAX) return false;
  const auto kind = static_cast<flifo_wait_kind_t>(state.kinds[state.depth]);
  flifo_wait_end(connection.session, kind);
  return kind == FLIFO_WAIT_ROW_LOCK;
}

void begin_commit(Connection &connection) {
  if (begin(connection, FLIFO_WAIT_LOG_SYNC)) {
    end(connection);
    return;
  }
  connection.waits.is_commit = true;
  connection.waits.nested_commits = 0;
}

bool ends_commit(Connection &connection) {
  State &state = connection.waits;
  if (!state.is_commit) return false;
  if (state.nested_commits != 0) {
    state.nested_commits--;
    return false;
  }
  state.is_commit = false;
  return true;
}

}  // namespace flifo::waits
