// A scheduler's signal that this run must end: SIGTERM, or SIGUSR1, which mpirun forwards, whereas
// on SIGTERM it ends its ranks itself.
//
// While an object exists, the first signal is recorded, for a run that saves itself and ends; the
// second ends the process as usual. One object at a time; its handlers run on a SignalThread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exec/transport/transport.h"

namespace pipesim::exec {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Its number. Any thread.
  static std::optional<int> received();
  // As if the signal had arrived, for another reason to stop.
  static void receive(int signal);
};

// Rank 0's messages about checkpoints on standard error: a skipped one; and that a run has stopped
// after so many iterations, or batches. All ranks call tell_stop(), which returns the same signal
// on each: that of the lowest rank that received one.
void warn_of_damage(const std::string& damage);
int tell_stop(Transport& transport, std::int64_t at, std::string_view what,
              const std::string& folder);
inline bool was_told_to_stop() { return StopSignal::received().has_value(); }

}  // namespace pipesim::exec
