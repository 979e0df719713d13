// What ranks of a pipeline exchange, with each other and with their replicas,
// as costs: links, messages, reductions, optimizer.
//
// Global ranks are numbered with tensor parallelism fastest, then data
// parallelism, then the pipeline, as Megatron-LM does. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"

namespace pipesim {

// What a pipeline rank holds of the model.
struct RankShare {
  std::int64_t parameters = 0;
  std::int64_t tied_parameters = 0;  // of them, the head's copy of the embedding's table
  bool has_table = false;
  bool has_copy = false;
};

// The links between ranks, and what messages cost the ranks themselves.
void link_ranks(const CostModel& model, const Placement& placement, Costs& costs);

// What follows a rank's last action: gradients reduced, the optimizer's step.
void close_ranks(const CostModel& model, const std::vector<RankShare>& shares, Costs& costs);

}  // namespace pipesim
