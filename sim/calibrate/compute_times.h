// What compute takes, by layer or by stage, from recorded runs.
//
// Each time is that of its samples' typical value (samples.h). What a rank is
// kept beyond that, by recording, sending and looking for messages, is part of
// it, so that sums over actions are right on average: by stage an action's time
// lasts until its rank comes to the next; by layer the rest of an action's time
// is spread evenly over its layers. What a received message adds is told apart.
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
  std::vector<StageCosts> entries;  // one a layer or stage, with nothing but times
  std::vector<Provenance::Entry> provenance;
  std::int64_t receive_ns = 0;              // that a message keeps its receiver
  std::vector<std::int64_t> variation_ppm;  // see provenance.h
};

// Of runs that record the same layers, or, not `by_layer`, the same stages.
// `launches`: late ones are part of what actions take. Throws a work error where a layer or stage
// has no sample of a time.
ComputeTimes compute_times(std::span<const RecordedRun* const> runs, bool by_layer,
                           bool launches = true);

}  // namespace pipesim
