// From flags to the workload of an input pipeline, trained or emulated.
#pragma once

#include <string>

#include "exec/input_pipeline/input_session.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

struct Flags;

// Those of input pipelines alone; more are shared with schedules.
struct InputFlags {
  Flag pipeline, batches, batch_size, stages, sharding, table_optimizer, epochs, evaluate;
};

void add_input_flags(CommandLine& program, InputFlags& flags);

// An input error where flags of schedules are given with --input-pipeline, or its own without.
void check_input_flags(const CommandLine& program, const Flags& flags);

// How many ranks are asked for, as threads of this process.
int count_input_ranks(const Flags& flags);

// Whatever is wrong with it is an input error, found before anything of its size is built, but for
// batches read from a file.
InputJob make_input_job(const Flags& flags, int ranks);

}  // namespace pipesim::exec
