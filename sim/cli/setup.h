// The flags that say what is simulated: a schedule and its costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cli/model_flags.h"
#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"
#include "sim/engine/simulate.h"
#include "sim/plan/candidates.h"
#include "sim/schedule/choice.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct CostFlags {
  Flag forward, backward, backward_input, backward_weight, activation_bytes;
  Flag p2p_latency, p2p_bytes, p2p_bandwidth, compute_slowdown;
  Flag p2p, eager_limit;
  Flag costs, layout;
  ModelFlags model;
};

void add_schedule_flags(CommandLine& command, ScheduleFlags& flags, bool with_name);
void add_cost_flags(CommandLine& command, CostFlags& flags);

// Costs before it is known how many stages there are.
class CostSource {
 public:
  explicit CostSource(const CostFlags& flags);
  // `file`, where it is given, stands for --costs; `name` is what it is of, in messages.
  CostSource(const CostFlags& flags, std::optional<CostsFile> file, std::string name);

  // Checked for the schedule's placement and number of microbatches.
  Costs resolve(const Schedule& schedule) const { return resolve(schedule, layout_); }
  Costs resolve(const Schedule& schedule, const std::optional<std::vector<int>>& layout) const;
  // One a layer, where by_layer().
  std::vector<StageCosts> layers(const Schedule& schedule) const;
  // As --layout says.
  const std::optional<std::vector<int>>& layout() const { return layout_; }
  // The schedule with what a model's replicas exchange while ranks compute.
  Schedule complete(Schedule schedule) const;
  // Whether layers are dealt out to stages, so that different numbers of
  // chunks stand for the same model.
  bool by_layer() const { return model_ || (file_ && !file_->layers.empty()); }
  // What the costs are made of, where --model gives them.
  std::optional<CostModel> cost_model(int pipeline_ranks) const;
  // How the schedule uses it.
  PipelineShape shape_of(const Schedule& schedule) const;
  const Transfers& transfers() const { return transfers_; }
  // As the file of a schedule has them, where it puts them on streams of their own.
  Transfers transfers_of(const ScheduleChoice& choice) const;
  // What simulate() may need beside the schedule.
  BytesNeeded bytes_needed() const;

 private:
  CostFlags flags_;
  std::optional<CostsFile> file_;
  std::string name_;
  std::optional<ModelSource> model_;
  std::optional<std::vector<int>> layout_;
  Transfers transfers_;
};

// Trying candidates with these costs.
Trial trial_with(const CostSource& source);

// What ranks have to fit into: as given, else what the model's devices have.
std::optional<std::int64_t> memory_cap(const Flag& flag, const std::optional<CostModel>& model);

}  // namespace pipesim::cli
