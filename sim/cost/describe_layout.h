// Makes the layout that pictures show from a schedule, costs and, if there is one, a model.
//
// Both programs use it, so that they show the same if they know the same. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/model.h"
#include "sim/schedule/schedule.h"
#include "traces/pipeline_layout.h"

namespace pipesim {

struct LayoutFacts {
  std::string title;  // of the schedule, to be used in a sentence
  // Includes what replicas exchange while ranks compute.
  const Schedule& schedule;
  const Costs& costs;                                // only bytes matter; times may be missing
  std::vector<int> layers = {};                      // of each virtual stage; empty: unknown
  const Model* model = nullptr;                      // has those layers; null: they have no names
  std::vector<std::int64_t> parameters = {};         // of each stage, on one device; empty: unknown
  std::vector<std::int64_t> expert_parameters = {};  // of those, routed experts'; empty: none
  // How many devices a rank represents, and what replicas split; its pipeline size is ignored.
  // Null: there is one replica, or only costs say what it exchanges.
  const Training* training = nullptr;
};
PipelineLayout describe_layout(const LayoutFacts& facts);

// "embedding, blocks 0-3" of `count` layers from `first` on.
std::string layer_names(const Model& model, int first, int count);

}  // namespace pipesim
