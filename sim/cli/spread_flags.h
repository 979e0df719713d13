// The flags that say how times vary, and the report of the resulting spread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/spread.h"
#include "sim/request/cost_source.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct SpreadFlags {
  Flag jitter, slow_rank, seeds;
};

std::vector<FlagHelp> all_spread_flags(SpreadFlags& flags);
void add_spread_flags(CommandLine& command, SpreadFlags& flags);

// Adds the slow ranks to the request for costs.
void add_slow_ranks(const SpreadFlags& flags, CostRequest& request);

// What the flags ask for. Without --jitter the variation of calibrated costs, if they have one and
// simulating this many `actions` again takes negligible time.
std::optional<SpreadQuestion> spread_question(const SpreadFlags& flags, const CostSource& source,
                                              std::int64_t actions);

// Text, with a line end.
std::string spread_report(const MakespanSpread& spread, const SpreadQuestion& question,
                          std::int64_t makespan_ns, int width);

}  // namespace pipesim::cli
