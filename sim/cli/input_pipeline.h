// `pipesim --input-pipeline ...`: predicts an overlapped input pipeline.
#pragma once

#include "traces/command/command_line.h"

namespace pipesim::cli {

// Flags only for an input pipeline.
struct InputPipelineFlags {
  Flag input_pipeline, ranks, batches, batch_size, stages, sharding, table_optimizer, seed;
  bool compare = false;
};
void add_input_pipeline_flags(CommandLine& program, InputPipelineFlags& flags);
// The first of them that was given, other than --input-pipeline; or empty.
std::string first_input_flag(InputPipelineFlags flags);

// Flags shared with a schedule's prediction.
struct SharedFlags {
  Flag model, cluster, costs, accumulate, memory_cap, trace, figure, export_file;
  bool json = false;
  bool quiet = false;
};
void predict_input_pipeline(const InputPipelineFlags& flags, const SharedFlags& shared,
                            const CommandLine& program);

}  // namespace pipesim::cli
