// Training of a recommendation model by one rank that does the work of all: the reference
// that runs of input pipelines must match bit for bit.
//
// Written for clarity, and slow. It has whole tables and exchanges nothing; a plan only determines
// the order of sums. It shares the code of the dense part (dense_part.h). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/input_pipeline/dense_part.h"
#include "exec/input_pipeline/input_batch.h"
#include "exec/input_pipeline/recommendation_training.h"

namespace pipesim::exec {

class RecommendationWorkload;

class InputReference {
 public:
  // The training must outlive it.
  explicit InputReference(const RecommendationTraining& training);

  // Trains with so many batches of each rank, like a program. If stale, rows of a batch are looked
  // up before the update of the previous batch, see InputProgram::is_stale. Returns losses by
  // batch, by rank.
  std::vector<std::vector<double>> train(const BatchSource& source, std::int64_t first_batch,
                                         int batches, bool is_stale);

  // The first difference of a rank's numbers from these, and where; empty if all bits are the same.
  std::string first_difference(const RecommendationWorkload& workload) const;

  const std::vector<float>& table(std::size_t index) const { return tables_[index].weights; }
  const DenseNumbers& parameters() const { return parameters_; }

 private:
  using Row = std::vector<float>;
  struct Table {
    EmbeddingTable spec;
    TableSharding sharding;
    std::vector<float> weights;              // [rows x width]
    std::vector<std::vector<float>> states;  // by part of the columns, by row
  };
  // For all ranks, by rank.
  struct Step {
    std::vector<InputBatch> batches;
    std::vector<std::vector<float>> pooled;     // [samples x tables x width]
    std::vector<std::vector<float>> by_pooled;  // gradients
  };

  Step read(const BatchSource& source, std::int64_t batch) const;
  void look_up(Step& step) const;
  Row pool(const Table& table, const std::vector<std::int64_t>& ids) const;
  std::vector<double> train_dense(Step& step, std::vector<DenseNumbers>& gradients) const;
  void update_table(std::size_t index, const Step& step);
  static void step_row(const RecommendationTraining& training, Table& table, std::int64_t row,
                       const Row& gradient);
  void step_dense(const std::vector<DenseNumbers>& gradients);

  const RecommendationTraining& training_;
  std::unique_ptr<Device> device_;
  DensePart dense_;
  std::vector<Table> tables_;
  DenseNumbers parameters_;
};

}  // namespace pipesim::exec
