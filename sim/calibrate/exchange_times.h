// What exchanges with replicas take, from recorded runs that have some, in a form that does not
// depend on how many replicas there are, what they split, and in which buckets they reduce.
//
// How many parameters layers or stages have is the model's where it is known, or as the costs of
// an emulated device have it, else told by what a rank sent. Latency and bandwidth are fitted to
// the ends of REDUCE_GRADs and UNSHARDs (exchange_fit.h): the gradients of a REDUCE_GRAD that goes
// on while an action makes them are taken to come evenly. That the same replica waits for slower
// ones is part of both.
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
  std::optional<ReplicaCosts> replicas;  // where any run has exchanges
  std::optional<Spread> spread;          // of what collectives took, from their start
  std::vector<std::string> notes;
};

// What a run's replicas were, and split.
Training replicas_of(const RunDescription& about);
// Over how many replicas a run has split what that stage of ZeRO splits.
int shards_of(const RunDescription& about, int least_zero);

// Fills in the `parameters` of `entries`, one a layer or stage, whose times are known.
ExchangeTimes exchange_times(std::span<const RecordedRun* const> runs, bool by_layer,
                             std::vector<StageCosts>& entries);

}  // namespace pipesim
