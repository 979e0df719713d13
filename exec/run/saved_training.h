// A training's numbers as arrays of a checkpoint, and back into the stages of any layout.
// Keys are "layers.2.qkv.matrix" plus the state of that parameter: weight, first_moment and
// second_moment, and between passes of a step gradient. A matrix that the head shares is the
// embedding's. If several ranks have the same numbers, one writes them, or each a part. Between
// passes gradients are sums that are not yet summed over replicas, or over tensor-parallel ranks:
// each is a separate array, named by its position ("gradient.replica.1.tensor.0"). If a layout has
// the same positions, each takes its own; else the first takes the sum of all. "losses" are those
// of the tokens of passes so far, in the order of the sequences. One rank, one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/checkpoint/reader.h"
#include "exec/checkpoint/snapshot.h"
#include "exec/run/rank_groups.h"
#include "exec/run/stage.h"
#include "exec/run/training.h"

namespace pipesim::exec {

// "layers.2.qkv.matrix": the key of a parameter's sums of gradients; and that of its weights and
// moments.
std::string own_key(const Model& model, int layer, const Parameter& parameter);
std::string states_key(const Model& model, int layer, std::size_t index,
                       const Parameter& parameter);

using Stages = std::vector<std::unique_ptr<Stage>>;

// A rank's position, which determines its numbers among all.
struct SavedPlace {
  int pipeline = 0;
  int replica = 0;
  int tensor = 0;  // its index among tensor-parallel ranks
  int like = 0;    // its index among ranks that have the same numbers
  int likes = 1;

  static SavedPlace of(const RankGroups& groups);
};

// A rank's part of a model's parameters and their moments, after so many passes of a step. `losses`
// of all tokens of its passes so far, if it has the head; else empty.
std::vector<SavedArray> saved_arrays(const TrainingJob& training, const SavedPlace& place,
                                     const Stages& stages, int passes, const Slice& losses);

// Loads weights and moments into a store, and the copies that operators read.
void load_states(const CheckpointReader& checkpoint, const Model& model, Device& device,
                 ParameterStore& store, const std::vector<Layer*>& layers);

// Loads sums of gradients of so many passes into stages, and losses into `losses`.
void load_passes(const TrainingJob& training, const SavedPlace& place,
                 const CheckpointReader& checkpoint, Device& device, Stages& stages, int passes,
                 const Slice& losses);

}  // namespace pipesim::exec
