// Metrics of an input pipeline as JSON: predictions and measurements have the same keys
// (traces/FORMAT.md, "Results of input pipelines").
#pragma once

#include "traces/base/json.h"
#include "traces/input_run.h"

namespace pipesim {

// The members of any result on a run; `ranks` is the last.
void add_input_run(Json& json, const InputRun& run, const InputMetrics& metrics);

// By kind, without those of no time, and `host`, `skew` and `other`: the mean over ranks.
Json input_exposed_json(const InputMetrics& metrics);
// For one rank.
Json input_rank_json(const InputMetrics::Rank& metrics, int rank);
Json input_memory_json(const InputMemory& memory);

}  // namespace pipesim
