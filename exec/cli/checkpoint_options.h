// Flags of checkpoints: where a training is saved, and from where it goes on.
#pragma once

#include "exec/run/training.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

struct CheckpointFlags {
  Flag folder, every, keep, resume;
  bool beside = false;

  bool any() const { return folder || every || keep || resume || beside; }
};

void add_checkpoint_flags(CommandLine& program, CheckpointFlags& flags);
// An input error where one stands without what it is of.
void read_checkpoints(const CheckpointFlags& flags, TrainingJob& training);

}  // namespace pipesim::exec
