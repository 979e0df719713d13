// A scheduler's word that this run is about to end: SIGTERM, or SIGUSR1, which mpirun passes on
// where it would end its ranks itself at a SIGTERM.
//
// While one is there, the first of them is taken down for a run that saves itself and ends; the
// second ends the process as ever. One at a time.
#pragma once

#include <optional>

namespace pipesim::exec {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Its number. Any thread.
  static std::optional<int> received();
};

}  // namespace pipesim::exec
