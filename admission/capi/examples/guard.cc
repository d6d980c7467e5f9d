// C++: a slot that is released at the end of its scope.
//
//     c++ guard.cc $(pkg-config --cflags --libs flifo) -o guard && ./guard
#include <flifo.h>

#include <cstdio>
#include <stdexcept>

class Slot {
public:
  explicit Slot(flifo_session_t session) : session_(session) {
    flifo_status_t status = flifo_enter(session);
    if (status != FLIFO_OK) throw std::runtime_error(flifo_error_message(status));
  }
  ~Slot() { flifo_exit(session_); }
  Slot(const Slot &) = delete;
  Slot &operator=(const Slot &) = delete;

private:
  flifo_session_t session_;
};

int main() {
  flifo_admission_t admission;
  flifo_session_t session;
  if (flifo_admission_new(nullptr, &admission) != FLIFO_OK || flifo_session_new(admission, &session) != FLIFO_OK) {
    std::fprintf(stderr, "guard: %s\n", flifo_last_error());
    return 1;
  }
  try {
    Slot slot(session);
    throw std::runtime_error("a statement fails");
  } catch (const std::runtime_error &) {
  }
  bool has_exited = flifo_is_running(session) == FLIFO_NOT_RUNNING;
  flifo_session_free(session);
  flifo_admission_free(admission);
  return has_exited ? 0 : 1;
}
