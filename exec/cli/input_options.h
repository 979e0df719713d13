// From flags to the workload of an input pipeline, trained or emulated.
#pragma once

#include <string>

#include "exec/input_pipeline/input_session.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

struct Flags;

// The flags only of input pipelines; others are shared with schedules.
struct InputFlags {
  Flag pipeline, batches, batch_size, stages, sharding, table_optimizer, epochs, evaluate;
};

void add_input_flags(CommandLine& program, InputFlags& flags);

// Throws an input error if flags of schedules are given with --input-pipeline, or its own without.
void check_input_flags(const CommandLine& program, const Flags& flags);

// The number of ranks requested, as threads of this process.
int count_input_ranks(const Flags& flags);

// Throws an input error if anything is wrong with it, before anything of its size is built, except
// batches read from a file.
InputJob make_input_job(const Flags& flags, int ranks);

}  // namespace pipesim::exec
