// An input program played on the event engine: when each of its calls runs, or why one never does.
//
// The host of each rank makes its calls one after the other; a stream runs its actions in order; a
// collective begins on all ranks once the last has reached it, and ends on each separately. Exact
// to the nanosecond, and the result depends only on the arguments. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "traces/event/flow_network.h"
#include "traces/input_run.h"

namespace pipesim {

// What a call takes: its host's time (of the host's own kinds nothing), then the bytes, over a
// route if there is one, and after them the duration.
struct CallWork {
  std::int64_t host_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t bytes = 0;
  std::optional<RouteId> route = {};
};

// `work` by rank and call, in one list. Fills in the program and spans of a run; or says where the
// ranks wait for each other. Expects waits to be earlier calls.
std::variant<InputRun, InputFault> play(const InputProgram& program, std::vector<CallWork> work,
                                        FlowNetwork network);

}  // namespace pipesim
