// The flags that say what is simulated: a schedule and its costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/plan/candidates.h"
#include "sim/schedule/choice.h"
#include "traces/command/flags.h"

namespace pipesim::cli {

struct CostFlags {
  Flag forward, backward, backward_input, backward_weight, activation_bytes;
  Flag p2p_latency, p2p_bytes, p2p_bandwidth, compute_slowdown;
  Flag p2p, eager_limit;
  Flag costs, layout;
};

void add_schedule_flags(CLI::App& app, ScheduleFlags& flags, bool with_name);
void add_cost_flags(CLI::App& app, CostFlags& flags);

// Costs before it is known how many stages there are.
class CostSource {
 public:
  explicit CostSource(const CostFlags& flags);

  // Checked for the placement and the number of microbatches.
  Costs resolve(const Placement& placement, int microbatches) const;
  // Whether layers are dealt out to stages, so that different numbers of
  // chunks stand for the same model.
  bool by_layer() const { return file_ && !file_->layers.empty(); }
  const Transfers& transfers() const { return transfers_; }
  // What simulate() may need beside the schedule.
  BytesNeeded bytes_needed() const;

 private:
  CostFlags flags_;
  std::optional<CostsFile> file_;
  std::optional<std::vector<int>> layout_;
  Transfers transfers_;
};

// Trying candidates with these costs.
Trial trial_with(const CostSource& source);

std::optional<std::int64_t> parse_memory_cap(const Flag& flag);

}  // namespace pipesim::cli
