// The output of `pipesim partition`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "sim/cost/estimate/cost_model.h"
#include "sim/flags/schedule_choice.h"
#include "sim/partition/partition.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// Everything to report; refers to data that its caller holds.
struct PartitionView {
  const std::string& name;  // of the model or file
  const std::optional<CostModel>& model;
  const ScheduleChoice& choice;
  const PartitionProblem& problem;
  const Partition& partition;
  Objective objective;
  const std::function<std::string(int)>& layer_name;
};

std::string partition_report(const PartitionView& view, const Terminal& terminal);
std::string partition_json(const PartitionView& view);

}  // namespace pipesim::cli
