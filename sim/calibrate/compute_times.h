// What compute takes, by layer or by stage, from recorded runs.
//
// Each time is that of its samples' typical value (samples.h). It includes what occupies the rank
// besides, such as recording, sending and looking for messages, so that sums over actions are right
// on average: by stage an action's time lasts until its rank comes to the next; by layer the rest
// of an action's time is spread evenly over its layers. What a received message adds is counted
// separately.
//
// Plain values; calls share nothing; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/provenance.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct ComputeTimes {
  std::vector<StageCosts> entries;  // one per layer or stage, with only the times
  std::vector<Provenance::Entry> provenance;
  std::int64_t receive_ns = 0;              // that a message occupies its receiver
  std::vector<std::int64_t> variation_ppm;  // see provenance.h
};

// For runs that record the same layers, or, unless `by_layer`, the same stages. With `launches`,
// late launches are part of an action's time. Throws a work error if a layer or stage has no sample
// of a time.
ComputeTimes compute_times(std::span<const RecordedRun* const> runs, bool by_layer,
                           bool launches = true);

}  // namespace pipesim
