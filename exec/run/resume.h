// Where a training goes on: the newest checkpoint that is whole and of the same training.
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

// All ranks, as newest_checkpoint.h has it; nothing where the training starts anew.
std::optional<Resumed> find_start(const TrainingJob& training, Transport& transport,
                                  const std::function<void(const std::string&)>& warn);

}  // namespace pipesim::exec
