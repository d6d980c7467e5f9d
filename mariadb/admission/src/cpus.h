// The number of CPUs.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_CPUS_H
#define FLIFO_CPUS_H

#include <algorithm>
#include <thread>

namespace flifo {

// The CPUs this server may use when the plugin is loaded; at least one.
inline unsigned cpus() {
  static const unsigned number = std::max(1U, std::thread::hardware_concurrency());
  return number;
}

}  // namespace flifo

#endif
