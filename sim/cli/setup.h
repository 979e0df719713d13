// The flags that say what is simulated: a schedule and its costs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cli/model_flags.h"
#include "sim/request/cost_source.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct CostFlags {
  Flag forward, backward, backward_input, backward_weight, overlapped, activation_bytes;
  Flag p2p_latency, p2p_bytes, p2p_bandwidth, compute_slowdown;
  Flag p2p, eager_limit;
  Flag costs, layout;
  ModelFlags model;
};

std::vector<FlagHelp> schedule_flags_but_name(ScheduleFlags& flags);
void add_schedule_flags(CommandLine& command, ScheduleFlags& flags, bool with_name);
// Those that are no model's.
std::vector<FlagHelp> cost_flags(CostFlags& flags);
// `of`: what costs, and each value of a list, are for.
void add_cost_flags(
    CommandLine& command, CostFlags& flags,
    const std::string& of = "per chunk and microbatch; a list has one per virtual stage");

// Flags by name, with dashes, and their values; "on" of a switch.
using FlagValues = std::map<std::string, std::string>;
// Sets those of `flags` that `values` has.
void set_flags(const std::vector<FlagHelp>& flags, const FlagValues& values);
// Whether it stands alone.
bool is_switch(const std::string& name);
// "--zero 1 --sequence-parallel".
std::string flags_text(const FlagValues& values);

// What flags come to.
struct FlagsOutcome {
  std::int64_t time_ns = 0;  // of a step of the optimizer
  std::int64_t memory_bytes = 0;
};

// What the flags ask for. `file`, if given, replaces --costs; `name` is its name in messages.
CostRequest cost_request(const CostFlags& flags);
CostRequest cost_request(const CostFlags& flags, std::optional<CostsFile> file, std::string name);

// Throws an input error if a flag other than `flag` gives costs, too.
void refuse_other_costs(const CostFlags& flags, std::string_view flag);

// What costs and schedule say of each other: the microbatches of --global-batch, if given, and
// pairs of --overlap-experts.
void settle_schedule(const Flag& global_batch, CostRequest& costs, ScheduleFlags& schedule);

// What a schedule comes to: an iteration, or `accumulate` of them with one step, which share the
// microbatches of the global batch. Throws what predict refuses.
FlagsOutcome outcome_of(CostRequest costs, const Flag& global_batch, ScheduleFlags schedule,
                        int accumulate = 1);

// The memory limit of a rank: as given, else that of the model's devices.
std::optional<std::int64_t> memory_cap(const Flag& flag, const std::optional<CostModel>& model);

}  // namespace pipesim::cli
