// A request for a prediction of an input pipeline, with defaults, and its computation.
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
#include "traces/input_run.h"

namespace pipesim {

// A model on a cluster.
struct InputTraining {
  RecommendationModel model;
  Cluster cluster;
  std::int64_t batch_size = 0;  // samples per rank
  // A plan's file, `auto` for choose_sharding(), `default` for default_sharding().
  std::string sharding = "default";
  InputSoftware software;
  TableOptimizer optimizer = TableOptimizer::sgd;
};

struct InputRequest {
  InputProgramRequest program;
  // Exactly one of the two.
  std::optional<InputTraining> training;
  std::optional<InputCosts> costs;
  // Memory limit per rank; for a model by default its devices' memory.
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
  // What the rank that exceeds the cap most lacks; nothing if all fit or no cap is known.
  std::optional<InputMemoryLack> lack() const;
};

// Throws an input error if ranks of the program, of the costs and of the plan differ.
InputPrediction predict_input(const InputRequest& request);

// The same for each family by name, including the requested one; `auto` chooses a plan for each.
std::vector<InputPrediction> predict_all_inputs(const InputRequest& request);

}  // namespace pipesim
