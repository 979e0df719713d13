// Flags that could make a training faster, or make it fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/advice/limits.h"
#include "sim/cli/setup.h"
#include "sim/cost/estimate/cost_model.h"

namespace pipesim::cli {

// A command with other flags, which replace its own.
struct OtherFlags {
  std::function<FlagsOutcome(const FlagValues&)> predict;  // throws where it can't be
  bool has_batch = false;                                  // of all replicas: microbatches follow
  bool has_devices = false;                                // all of them: replicas follow
};

// Of each kind of change (recomputation, attention, what is overlapped and sharded, the size of a
// microbatch, gradients, chunks, tensor parallelism) the fastest, if it is faster than
// `makespan_ns` and holds at most `memory_bytes`. The work stays the same, and so do the devices:
// tensor parallelism changes only where replicas and microbatches follow.
std::vector<Limit> find_switches(const CostModel& model, const ScheduleChoice& choice,
                                 std::int64_t makespan_ns, std::int64_t memory_bytes,
                                 const OtherFlags& other);

struct Remedy {
  std::string what;  // "full recomputation and ZeRO 1"
  FlagValues flags;
  FlagsOutcome outcome;
};

// Fused attention, recomputation, sequence parallelism, ZeRO, as far as the training can have them
// and does not: of each kind the mildest that fits into `memory_bytes`, or else the one that saves
// most. Where none fits, those that save most together come first, as many as it takes. What fits
// stands first, the fastest of it first, then what needs least.
std::vector<Remedy> find_remedies(const CostModel& model, std::int64_t memory_bytes,
                                  const OtherFlags& other);

}  // namespace pipesim::cli
