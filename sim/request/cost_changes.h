// Changes to costs: slower or faster compute, slower or faster
// links. Given as texts in the syntax of the command line.
//
// Plain values and pure functions; any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/schedule/placement.h"
#include "traces/action.h"

namespace pipesim {

// A factor on compute times: of a kind, a stage, a rank, or all.
struct TimeChange {
  std::optional<Kind> kind;  // F, I, W or B, which is I and W
  std::optional<int> stage, rank;
  double factor = 1;
  std::string_view flag = "--scale";  // that asked for it, in messages
};

// A factor on the speed of messages between two ranks, in both directions: latency and bandwidth.
struct LinkChange {
  int one = 0;
  int other = 0;
  double speed = 1;
};

// "B@stage2=0.8", "stage2=0.8", "F@rank1=1.5", "rank1=1.5", "B=0.9": several separated by commas.
// Throws an error in the terms of the command line for any other text.
std::vector<TimeChange> parse_time_changes(std::string_view text);
// "3:1.2", of --slow-rank: all compute of rank 3 takes 1.2 times as long; several between commas.
std::vector<TimeChange> parse_slow_ranks(std::string_view text);
// "0-1=2x".
std::vector<LinkChange> parse_link_changes(std::string_view text);

// Throws if a change names a stage, rank or link that the pipeline does not have.
void apply(const TimeChange& change, const Placement& placement, Costs& costs);
void apply(const LinkChange& change, const Placement& placement, Costs& costs);

}  // namespace pipesim
