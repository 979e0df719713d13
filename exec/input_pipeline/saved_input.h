// A training by an input pipeline as a checkpoint: its progress, and its numbers.
//
// It is saved between programs, when no batch is in flight. Keys are "tables.3.weight", of rows x
// columns, and "tables.3.state", one number a row; of a table whose columns are divided
// "tables.3.state.columns.0-8". Another division of the columns takes the mean of states over its
// columns: exact where parts are joined. "dense.bottom" and "dense.top" are common to all ranks.
// One rank, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/reader.h"
#include "exec/checkpoint/snapshot.h"
#include "exec/input_pipeline/dense_part.h"
#include "exec/input_pipeline/sharded_tables.h"

namespace pipesim::exec {

struct InputJob;

struct InputState {
  int epoch = 0;  // epochs ended
  int batch = 0;  // batches of the next one done
  std::vector<double> losses;
  std::vector<double> evaluations;

  // Batches in total, with so many per epoch.
  std::int64_t done(int batches) const { return std::int64_t{epoch} * batches + batch; }
};

// A checkpoint's manifest, without files.
Manifest manifest_of(const InputJob& job, const InputState& state);
// Reads it. A checkpoint of another training, or one that this can't resume from, is an input error
// that names the checkpoint and the difference.
InputState state_of(const FoundCheckpoint& checkpoint, const InputJob& job);

// A rank's part.
std::vector<SavedArray> saved_arrays(const RecommendationTraining& training, int rank,
                                     ShardedTables& tables, DenseNumbers& parameters);
void load(const CheckpointReader& checkpoint, const RecommendationTraining& training,
          ShardedTables& tables, DenseNumbers& parameters);

}  // namespace pipesim::exec
