// How far a training is, and of what it is: what its checkpoints say beside their arrays.
//
// The same on all ranks. Plain values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/run/training.h"

namespace pipesim::exec {

struct TrainingState {
  int iteration = 0;                  // so many have been done
  int step = 0;                       // and so many steps
  int passes = 0;                     // and passes of the next step
  std::vector<double> warmup_losses;  // one a step
  std::vector<double> losses;
};

// Of a training that has done so many iterations, with losses of the steps that these ended.
TrainingState state_after(const TrainingJob& training, int iterations,
                          std::vector<double> warmup_losses, std::vector<double> losses);

// As a checkpoint's manifest has it, without files.
Manifest manifest_of(const TrainingJob& training, const TrainingState& state);

// Reads it. What another training has left, or one that this can't go on from, is an input error
// that names the checkpoint and what differs.
TrainingState state_of(const FoundCheckpoint& checkpoint, const TrainingJob& training);

}  // namespace pipesim::exec
