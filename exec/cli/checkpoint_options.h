// Checkpoint flags: where a training is saved, and what it resumes from.
#pragma once

#include <optional>
#include <string>

#include "exec/checkpoint/folder.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

struct CheckpointFlags {
  Flag folder, every, keep, resume;
  bool beside = false;

  bool any() const { return folder || every || keep || resume || beside; }
};

void add_checkpoint_flags(CommandLine& program, CheckpointFlags& flags);
// Throws an input error if one lacks the flag it depends on. Nothing if nothing is saved.
std::optional<SavePlan> read_saves(const CheckpointFlags& flags);
// The folder to resume from, empty if there is none.
std::string read_resume(const CheckpointFlags& flags);

}  // namespace pipesim::exec
