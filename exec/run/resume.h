// Where a training goes on: the newest checkpoint that is whole and of the same training.
//
// All ranks look together, each at some of the files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/checkpoint/reader.h"
#include "exec/run/training_state.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

struct Resumed {
  TrainingState state;
  std::shared_ptr<const CheckpointReader> checkpoint;
};

// Rank 0 is told by `warn` of each that is passed over, and why. Nothing where there is none and
// the training saves to the same folder: then it starts anew. Else that is an input error, and so
// is a checkpoint of another training, one in which none is whole, and a folder to save to that has
// checkpoints which this training would not go on from.
std::optional<Resumed> find_start(const TrainingJob& training, Transport& transport,
                                  const std::function<void(const std::string&)>& warn);

}  // namespace pipesim::exec
