// The definition of training a recommendation model: the same on all ranks.
//
// The objective of a step is the mean loss of the samples of all ranks and of `accumulate`
// batches: the gradient of a sample's loss is multiplied by gradient_scale() once, where it
// begins, and from there on everything is a plain sum. A last step of fewer batches keeps that
// scale. The dense part steps after `accumulate` batches, tables after each. Plain values.
#pragma once

#include <cstdint>

#include "sim/input_pipeline/recommendation_model.h"
#include "sim/input_pipeline/sharding.h"

namespace pipesim::exec {

struct RecommendationTraining {
  RecommendationModel model;
  ShardingPlan plan;
  int ranks = 1;
  std::int64_t batch_size = 1;  // per rank
  int accumulate = 1;
  std::uint64_t seed = 0;
  float learning_rate = 0.05F;  // of the dense part, by SGD
  // Steps a row by the sum of its gradients of a batch, over ranks. sgd: row -= rate * gradient.
  // row_wise_adagrad: one state per row (or per part of it, if columns are divided) grows by the
  // mean of the gradient's squares; row -= rate / (sqrt(state) + epsilon) * gradient.
  TableOptimizer table_optimizer = TableOptimizer::sgd;
  float table_learning_rate = 0.05F;
  float epsilon = 1e-8F;

  bool has_states() const { return table_optimizer == TableOptimizer::row_wise_adagrad; }

  float gradient_scale() const {
    return 1.0F / static_cast<float>(batch_size * ranks * accumulate);
  }
};

// Throws an input error if a table is divided in a way that is only simulated.
void check_executable(const RecommendationTraining& training);
// Throws an input error if ranks first ... end - 1, which run on this machine, do not fit into its
// memory, together with so many references (input_reference.h). It names the first table, or other
// item, that does not fit; batches count with their least size. Call before anything is built.
void check_training_memory(const RecommendationTraining& training, int first_rank, int end_rank,
                           int references = 0);

}  // namespace pipesim::exec
