// C++: a place that is left when its scope is.
//
//     c++ guard.cc $(pkg-config --cflags --libs flifo) -o guard && ./guard
#include <flifo.h>

#include <cstdio>
#include <stdexcept>

class Place {
public:
  explicit Place(flifo_session_t session) : session_(session) {
    flifo_status_t status = flifo_enter(session);
    if (status != FLIFO_OK) throw std::runtime_error(flifo_error_message(status));
  }
  ~Place() { flifo_exit(session_); }
  Place(const Place &) = delete;
  Place &operator=(const Place &) = delete;

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
    Place place(session);
    throw std::runtime_error("a statement fails");
  } catch (const std::runtime_error &) {
  }
  bool outside = flifo_is_running(session) == FLIFO_NOT_RUNNING;
  flifo_session_free(session);
  flifo_admission_free(admission);
  return outside ? 0 : 1;
}
