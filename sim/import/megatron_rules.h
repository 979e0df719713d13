// What Megatron-LM refuses of a pipeline: megatron/training/arguments.py, validate_args(), and
// megatron/core/pipeline_parallel/schedules.py.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace pipesim {

// Absent is what is not known, or not asked for.
struct MegatronShape {
  std::optional<std::int64_t> layers;  // dealt out evenly
  std::int64_t stages = 1;             // pipeline ranks
  std::int64_t chunks = 1;             // per rank
  std::int64_t group = 1;              // microbatches that a chunk computes in a row
  std::int64_t micro_batch = 1;
  std::optional<std::int64_t> global_batch;
  std::optional<std::int64_t> replicas;
};

// Throws an input error: the argument, Megatron-LM's rule, and the nearest that keep it.
void check_as_megatron_does(const MegatronShape& shape);

}  // namespace pipesim
