// How long exchanges with replicas take, from recorded runs that have replicas, in a form that does
// not depend on the number of replicas, what they split, and the buckets in which they reduce.
//
// The number of parameters of layers or stages is the model's if it is known, or that in the costs
// of an emulated device, else it follows from what a rank sent. Latency and bandwidth are fitted to
// the ends of REDUCE_GRADs and UNSHARDs (exchange_fit.h): the gradients of a REDUCE_GRAD that
// overlaps the action that produces them are assumed to come evenly. Both include waiting for
// slower replicas.
//
// Calls share nothing; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/provenance.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct ExchangeTimes {
  std::optional<ReplicaCosts> replicas;  // if any run has exchanges
  std::optional<Spread> spread;          // of the times of collectives, from their start
  std::vector<std::string> notes;
};

// A run's replicas, and what they split.
Training replicas_of(const RunDescription& about);
// Over how many replicas a run has split what that stage of ZeRO splits.
int shards_of(const RunDescription& about, int least_zero);

// Fills in the `parameters` of `entries`, one per layer or stage, whose times are known.
ExchangeTimes exchange_times(std::span<const RecordedRun* const> runs, bool by_layer,
                             std::vector<StageCosts>& entries);

}  // namespace pipesim
