// The facts of a training in a checkpoint's manifest, for display.
// For a training by a schedule or by an input pipeline; a run that resumes a checkpoint reads more
// strictly (exec/run/training_state.h). Plain values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "sim/cost/model.h"

namespace pipesim::exec {

enum class TrainingKind : std::uint8_t { pipeline, input_pipeline };

// The layout of the training that saved it.
struct SavedLayout {
  std::string program;  // a schedule, or an input pipeline
  int stages = 1;
  int replicas = 1;
  int shards = 1;  // tensor-parallel
  int zero = 0;
  int ranks() const { return stages * replicas * shards; }
};

struct CheckpointFacts {
  TrainingKind kind = TrainingKind::pipeline;
  std::string model_name;
  std::optional<Model> model;  // of a pipeline
  std::string model_json;
  // Absent if the weights were imported and nothing is trained yet.
  std::optional<std::string> seed;
  std::optional<std::string> data;  // its name
  std::optional<SavedLayout> layout;
  std::optional<std::string> imported;  // the source
  std::int64_t step = 0;                // or epochs, for an input pipeline
  std::int64_t passes = 0;              // of the next step, or batches
  std::vector<double> losses;           // one per step, including the warm-up's
};

// Throws an input error that names the manifest if it is not pipeexec's.
CheckpointFacts facts_of(const FoundCheckpoint& checkpoint);

}  // namespace pipesim::exec
