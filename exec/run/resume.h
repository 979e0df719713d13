// Finds where a training resumes: the newest complete checkpoint of the same training.
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

// Called by all ranks, see newest_checkpoint.h; nothing if the training starts from scratch.
std::optional<Resumed> find_start(const TrainingJob& training, Transport& transport,
                                  const std::function<void(const std::string&)>& warn);

}  // namespace pipesim::exec
