// Training of a recommendation model on one rank: the actions of an input pipeline.
//
// It owns the rank's tables, its copy of the dense part and the batches in flight. A batch
// lives from NEXT to the end of UPDATE or BOTTOM_BACKWARD, whichever is later; each of its
// parts is freed once nothing will read it. run() may be called on several threads at once, as
// the program's streams are; all else between programs, on one thread.
//
// Actions do more than their names say: SPLITS sorts ids by the rank they go to. COPY
// copies within the CPU's memory. PREPARE checks that ids are within their tables. PREFETCH only
// hints to the processor which rows come next: there is no cache of rows that an update could
// leave behind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/checkpoint/reader.h"
#include "exec/checkpoint/snapshot.h"
#include "exec/device/device.h"
#include "exec/input_pipeline/dense_part.h"
#include "exec/input_pipeline/input_batch.h"
#include "exec/input_pipeline/input_workload.h"
#include "exec/input_pipeline/recommendation_training.h"
#include "exec/input_pipeline/sharded_tables.h"
#include "traces/input_run.h"

namespace pipesim::exec {

// A CPU device for each calling thread, since a device belongs to one thread. Any thread.
class DevicesByThread {
 public:
  // The calling thread's, until it ends.
  Device& here();

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Device>> devices_;
};

class RecommendationWorkload final : public InputWorkload {
 public:
  // The training must have passed check_executable(). Both must outlive it.
  RecommendationWorkload(const RecommendationTraining& training, const BatchSource& source,
                         int rank);

  // Sets the batches of the next program: so many of the source, from that one on. Throws an input
  // error if there are fewer; a work error if batches of the last program are still in flight.
  void start(std::int64_t first_batch, int batches);
  void run(const Action& action, InputExchange* exchange) override;

  // The mean loss of so many batches of a source, over all ranks; called by all. Forward only, on
  // separate batches: training is not affected.
  double evaluate(const BatchSource& source, std::int64_t first_batch, int batches,
                  InputExchange& exchange);

  // Call between programs: its arrays for a checkpoint, valid as long as no program runs; and loads
  // them from one.
  std::vector<SavedArray> saved_arrays();
  void load(const CheckpointReader& checkpoint);
  // The device for copying them: the CPU, of the calling thread.
  Device& device() { return devices_.here(); }

  // Of this rank's samples, by batch of the program.
  const std::vector<double>& losses() const { return losses_; }
  const ShardedTables& tables() const { return tables_; }
  const DenseNumbers& parameters() const { return parameters_; }
  // Batches and buffers are those of the peak so far.
  InputMemory memory() const;
  std::size_t batches_under_way() const;
  // The number of distinct rows prefetched, over all batches.
  std::int64_t prefetched_rows() const;

 private:
  // A batch in flight. Concurrent actions write different members.
  struct Batch {
    InputBatch host;  // until it is copied
    InputBatch copied;
    TableBatch tables;
    DenseActivations dense;
    std::int64_t table_bytes = 0, dense_bytes = 0;  // counted in held_
    int last_uses = 2;                              // UPDATE and BOTTOM_BACKWARD
  };
  struct Held {
    std::int64_t batches = 0, buffers = 0;
  };

  void take_next(std::int32_t number);
  Batch& find(const Action& action);
  void check_ids(const InputBatch& batch) const;
  void run_on_tables(Kind kind, Batch& batch, InputExchange* exchange);
  void run_dense(const Action& action, Batch& batch);
  void step(Kind kind, InputExchange* exchange);
  // Counts the current size of a batch's buffers.
  void count(std::int64_t& counted, std::int64_t bytes);
  void end_use(std::int32_t number);

  const RecommendationTraining& training_;
  const BatchSource& source_;
  int rank_;
  DevicesByThread devices_;
  ShardedTables tables_;
  DensePart dense_;
  DenseNumbers parameters_;
  DenseNumbers gradients_;
  std::int64_t first_batch_ = 0;
  std::vector<double> losses_;  // each written by its batch's TOP

  mutable std::mutex mutex_;  // guards the following members
  std::map<std::int32_t, std::unique_ptr<Batch>> batches_;
  Held held_, most_held_;
  std::int64_t prefetched_rows_ = 0;
};

// Sums numbers over ranks in their order: each rank sums a part, then all get all parts.
void sum_over_ranks(std::vector<float>& numbers, InputExchange& exchange);

}  // namespace pipesim::exec
