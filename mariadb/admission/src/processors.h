// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_PROCESSORS_H
#define FLIFO_PROCESSORS_H

#include <algorithm>
#include <thread>

namespace flifo {

// How many processors there are, as the server found them; at least one.
inline unsigned processors() {
  static const unsigned number = std::max(1U, std::thread::hardware_concurrency());
  return number;
}

}  // namespace flifo

#endif
