// The groups of ranks that a training exchanges within, by name.
//
// Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "sim/cost/estimate/training.h"
#include "traces/mesh.h"

namespace pipesim {

// Every rank is in one group, and all are of one size.
struct RankGroups {
  std::string_view key;           // "expert_parts"
  std::string_view name;          // "parts of experts"
  std::vector<RankGroup> groups;  // by their first ranks
};

// "tensor", "context", "data", "gradients", whose ranks hold the same dense weights, "pipeline".
// For routed experts "experts", whose ranks share them out, "expert_parts", which split each, and
// "expert_replicas", which hold the same.
std::vector<RankGroups> rank_groups(const Training& training, int pipeline_ranks, bool has_experts);

}  // namespace pipesim
