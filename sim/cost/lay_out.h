// From a schedule, costs and, where there is one, a model to the layout that pictures show.
//
// Both programs fill it here, so that they show the same where they know the same. Pure; any
// thread.
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
  std::string title;  // of the schedule, as in a sentence
  // With what replicas exchange while ranks compute.
  const Schedule& schedule;
  const Costs& costs;                         // its bytes count; times may be missing
  std::vector<int> layers = {};               // of each virtual stage; empty: nobody says
  const Model* model = nullptr;               // has those layers; null: they have no names
  std::vector<std::int64_t> parameters = {};  // of each stage, on one device; empty: nobody says
  // How many devices stand for a rank, and what replicas split; its size of the pipeline
  // does not count. Null: there is one replica, or costs alone say what it exchanges.
  const Training* training = nullptr;
};
PipelineLayout lay_out(const LayoutFacts& facts);

// "embedding, blocks 0-3" of `count` layers from `first` on.
std::string layer_names(const Model& model, int first, int count);

}  // namespace pipesim
