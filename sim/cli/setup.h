// The flags that say what is simulated: a schedule and its costs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

void add_schedule_flags(CommandLine& command, ScheduleFlags& flags, bool with_name);
// `of`: what costs are of, and one value of a list is.
void add_cost_flags(
    CommandLine& command, CostFlags& flags,
    const std::string& of = "per chunk and microbatch; a list has one per virtual stage");

// What the flags ask for. `file`, where it is given, stands for --costs; `name` is what it
// is of, in messages.
CostRequest cost_request(const CostFlags& flags);
CostRequest cost_request(const CostFlags& flags, std::optional<CostsFile> file, std::string name);

// An input error where a flag other than `flag` gives costs, too.
void refuse_other_costs(const CostFlags& flags, std::string_view flag);

// Microbatches as --global-batch has them, if it is given.
void set_microbatches(const Flag& global_batch, const CostRequest& costs, ScheduleFlags& schedule);

// What ranks have to fit into: as given, else what the model's devices have.
std::optional<std::int64_t> memory_cap(const Flag& flag, const std::optional<CostModel>& model);

}  // namespace pipesim::cli
