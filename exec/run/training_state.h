// The progress of a training and its identity: the part of its checkpoints other than arrays.
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
  int iteration = 0;                  // iterations done
  int step = 0;                       // steps done
  int passes = 0;                     // passes of the next step done
  std::vector<double> warmup_losses;  // one per step
  std::vector<double> losses;
};

// For a training after so many iterations, with the losses of their steps.
TrainingState state_after(const TrainingJob& training, int iterations,
                          std::vector<double> warmup_losses, std::vector<double> losses);

// The manifest of a checkpoint, without files.
Manifest manifest_of(const TrainingJob& training, const TrainingState& state);

// Reads it. A checkpoint of another training, or one that this can't resume from, is an input error
// that names the checkpoint and the difference. For one of iteration 0 only the model counts.
TrainingState state_of(const FoundCheckpoint& checkpoint, const TrainingJob& training);

}  // namespace pipesim::exec
