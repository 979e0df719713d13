// From flags to what is to be simulated: a schedule and its costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/plan/candidates.h"
#include "sim/schedule/family.h"
#include "traces/command/flags.h"

namespace pipesim::cli {

struct ScheduleFlags {
  Flag schedule, stages, microbatches, virtual_stages, group, placement;
};

struct CostFlags {
  Flag forward, backward, backward_input, backward_weight, activation_bytes;
  Flag p2p_latency, p2p_bytes, p2p_bandwidth, compute_slowdown;
  Flag p2p, eager_limit;
  Flag costs, layout;
};

void add_schedule_flags(CLI::App& app, ScheduleFlags& flags, bool with_name);
void add_cost_flags(CLI::App& app, CostFlags& flags);

// Whether a --schedule names a file: it ends in .csv or holds a slash.
bool names_a_file(const std::string& schedule);

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
  // What simulate() may need per action, as check_size() wants to know it.
  std::int64_t bytes_per_action() const;

 private:
  CostFlags flags_;
  std::optional<CostsFile> file_;
  std::optional<std::vector<int>> layout_;
  Transfers transfers_;
};

// Trying candidates with these costs.
Trial trial_with(const CostSource& source);

struct Setup {
  const Family* family = nullptr;  // null: the schedule is a file's
  Shape shape;
  Schedule schedule;
};

// Generates or reads the schedule. Refuses one that would not fit in memory,
// `bytes_per_action` on top of the schedule and its simulation included.
Setup make_setup(const ScheduleFlags& flags, std::int64_t bytes_per_action = 0);
Setup make_setup(const Family& family, const ScheduleRequest& request,
                 std::int64_t bytes_per_action = 0);

ScheduleRequest parse_request(const ScheduleFlags& flags);
std::optional<std::int64_t> parse_memory_cap(const Flag& flag);

}  // namespace pipesim::cli
