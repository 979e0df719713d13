// What the evaluations of a schedule with costs need, found once, and which of them serves.
//
// Refers to the costs and options that it was made of. Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

enum class Evaluation : std::uint8_t {
  alone,        // topological: nothing takes time but actions, and the latencies of messages
  topological,  // all durations are known at the start, unless messages meet on a link
  by_events,
};

struct Prepared {
  const Costs& costs;
  const SimulationOptions& options;
  std::vector<StageFootprint> footprints;  // by stage
  std::vector<Closing> closing;            // by rank: what takes time, or waits for others that do
  bool lists_transfers = false;            // the schedule
  Evaluation evaluation = Evaluation::alone;
};

Prepared prepare(const Schedule& schedule, const Costs& costs, const SimulationOptions& options);
Prepared prepare(const Schedule&, Costs&&, const SimulationOptions&) = delete;

}  // namespace pipesim
