// A complete request for a prediction, and everything needed to compute it.
//
// One struct with defaults, made by the command line, the viewer's playground, or any
// caller; prepare() validates it once. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/prediction.h"
#include "sim/flags/schedule_choice.h"
#include "sim/request/cost_source.h"
#include "traces/pipeline_layout.h"

namespace pipesim {

struct PredictionRequest {
  ScheduleChoice schedule;
  CostRequest costs;
  int iterations = 1;
  int accumulate = 1;  // iterations per step; at least this many are predicted
  Saves saves;         // their cost is part of the costs
  std::optional<std::int64_t> memory_cap_bytes;  // per rank; default: that of a model's device
};

struct PreparedPrediction {
  CostSource source;
  ScheduleChoice choice;           // includes what replicas exchange while ranks compute
  std::optional<CostModel> model;  // if it gives the costs
  std::optional<std::int64_t> memory_cap_bytes;
  Costs costs;
  SimulationOptions options;

  Prediction predict() const;
  // The same without saves.
  Prediction predict_plain() const;
  // Its spans.
  std::vector<Span> plain_spans() const;
};

// What I and W apart mean for one iteration alone; nothing of schedules that do not split, and of
// those that is_small() refuses.
struct SplitBackward {
  // Of iterations that follow each other, the next one's start fills the end of the one before.
  std::int64_t steady_ns = 0;
  // On the fullest rank, counted until W instead of I: it still needs part of what was kept.
  std::int64_t chunks_until_weights = 0;
};

std::optional<SplitBackward> split_backward(const PreparedPrediction& prepared);

// The memory limit of ranks: as requested, else that of the model's devices.
std::optional<std::int64_t> memory_cap(std::optional<std::int64_t> asked_bytes,
                                       const std::optional<CostModel>& model);

// A title for pictures of the prediction.
PipelineLayout layout_of(const PreparedPrediction& prepared);

// How many iterations save_effect() simulates at once, at most.
int iterations_of_effect(const PredictionRequest& request);

// Throws if parts of the request don't fit together, or sums would exceed 64 bits.
PreparedPrediction prepare(PredictionRequest request);

}  // namespace pipesim
