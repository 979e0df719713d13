// The flags that say how times vary, and what is said of the spread that follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/plan/spread.h"
#include "sim/request/cost_source.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct SpreadFlags {
  Flag jitter, slow_rank, seeds;
};

void add_spread_flags(CommandLine& command, SpreadFlags& flags);

// Ranks that are slower, into what the costs are asked to be.
void add_slow_ranks(const SpreadFlags& flags, CostRequest& request);

// What the flags ask for. Without --jitter the variation of calibrated costs, where they have one
// and simulating so many `actions` again takes no time to speak of.
std::optional<SpreadQuestion> spread_question(const SpreadFlags& flags, const CostSource& source,
                                              std::int64_t actions);

// For people, ending with a line's end.
std::string spread_report(const MakespanSpread& spread, const SpreadQuestion& question,
                          std::int64_t makespan_ns, int width);

}  // namespace pipesim::cli
