// What a prediction of an input pipeline is asked, with defaults, and all that answering takes.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/hardware/cluster.h"
#include "sim/input_pipeline/input_estimate.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/choose_sharding.h"
#include "traces/input_pipeline/input_run.h"

namespace pipesim {

// A model on a cluster.
struct InputTraining {
  RecommendationModel model;
  Cluster cluster;
  std::int64_t batch_size = 0;  // samples of a rank
  // A plan's file, `auto` for what choose_sharding() finds, `default` for default_sharding().
  std::string sharding = "default";
  InputSoftware software;
  TableOptimizer optimizer = TableOptimizer::sgd;
};

struct InputRequest {
  InputProgramRequest program;
  // One of both.
  std::optional<InputTraining> training;
  std::optional<InputCosts> costs;
  // What each rank has to fit into; of a model what its devices have, unless given.
  std::optional<std::int64_t> memory_cap_bytes;
};

struct InputPrediction {
  InputRun run;
  InputMetrics metrics;
  InputCosts costs;
  std::optional<ShardingPlan> plan;
  std::int64_t plans_evaluated = 0;  // by `auto`
  std::optional<std::int64_t> memory_cap_bytes;

  std::int64_t peak_memory_bytes() const;
  // What the rank that exceeds the cap most lacks; nothing where all fit or no cap is known.
  std::optional<InputMemoryLack> lack() const;
};

// An input error where ranks of the program, of the costs and of the plan differ.
InputPrediction predict_input(const InputRequest& request);

// The same of each family by name, the one that is asked for among them; `auto` chooses a plan for
// each.
std::vector<InputPrediction> predict_all_inputs(const InputRequest& request);

}  // namespace pipesim
