// A training's numbers as arrays of a checkpoint, and back into the stages of any layout.
//
// Keys are "layers.2.qkv.matrix" and what it is of that parameter: weight, first_moment and
// second_moment, and between passes of a step gradient. A matrix that the head shares is the
// embedding's. What several ranks have alike one writes, or each a part. Between passes gradients
// are sums that are still to be added up over replicas, or over tensor-parallel ranks: each is an
// array of its own, named by its place ("gradient.replica.1.tensor.0"). Where a layout has the
// same places, each takes its own; else the first takes the sum of all. "losses" are of the
// tokens of passes so far, in the order of the sequences. One rank, one thread.
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

// "layers.2.qkv.matrix", of which sums of gradients are; and of which its weights and moments are.
std::string own_key(const Model& model, int layer, const Parameter& parameter);
std::string states_key(const Model& model, int layer, std::size_t index,
                       const Parameter& parameter);

using Stages = std::vector<std::unique_ptr<Stage>>;

// Where a rank's numbers stand among those of all.
struct SavedPlace {
  int pipeline = 0;
  int replica = 0;
  int tensor = 0;  // its place among tensor-parallel ranks
  int like = 0;    // and among ranks that have the same numbers
  int likes = 1;

  static SavedPlace of(const RankGroups& groups);
};

// What a rank has of a model's parameters and their moments, after so many passes of a step.
// `losses` of all tokens of its passes so far, where it has the head; else empty.
std::vector<SavedArray> saved_arrays(const TrainingJob& training, const SavedPlace& place,
                                     const Stages& stages, int passes, const Slice& losses);

// Puts weights and moments into a store, and what operators read of them.
void load_states(const CheckpointReader& checkpoint, const Model& model, Device& device,
                 ParameterStore& store, const std::vector<Layer*>& layers);

// Puts sums of gradients of so many passes into stages, and losses into their place.
void load_passes(const TrainingJob& training, const SavedPlace& place,
                 const CheckpointReader& checkpoint, Device& device, Stages& stages, int passes,
                 const Slice& losses);

}  // namespace pipesim::exec
