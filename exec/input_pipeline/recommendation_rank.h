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
#include "traces/input_pipeline/input_run.h"

namespace pipesim::exec {

// A CPU device for each thread that asks: one belongs to one thread. Any thread.
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
  // The training has passed check_executable(). Both outlive it.
  RecommendationWorkload(const RecommendationTraining& training, const BatchSource& source,
                         int rank);

  // The batches of the program that runs next are so many of the source, from that one on. An
  // input error where there are fewer; a work error where batches of the last one are still under
  // way.
  void start(std::int64_t first_batch, int batches);
  void run(const InputAction& action, InputExchange* exchange) override;

  // The mean loss of so many batches of a source, over all ranks, which all call it. Batches of
  // their own pass, forward only: training neither sees nor loses any.
  double evaluate(const BatchSource& source, std::int64_t first_batch, int batches,
                  InputExchange& exchange);

  // Between programs: what it adds to a checkpoint, as long as none runs, and what it takes from
  // one.
  std::vector<SavedArray> saved_arrays();
  void load(const CheckpointReader& checkpoint);
  // That copies them: of the CPU, the calling thread's.
  Device& device() { return devices_.here(); }

  // Of this rank's samples, by batch of the program.
  const std::vector<double>& losses() const { return losses_; }
  const ShardedTables& tables() const { return tables_; }
  const DenseNumbers& parameters() const { return parameters_; }
  // Batches and buffers are those at the fullest so far.
  InputMemory memory() const;
  std::size_t batches_under_way() const;
  // Different rows that PREFETCH has named, of all batches.
  std::int64_t prefetched_rows() const;

 private:
  // A batch under way. Actions that run at once write different members.
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
  Batch& find(const InputAction& action);
  void check_ids(const InputBatch& batch) const;
  void run_on_tables(InputKind kind, Batch& batch, InputExchange* exchange);
  void run_dense(const InputAction& action, Batch& batch);
  void step(InputKind kind, InputExchange* exchange);
  // Counts what a batch's buffers have become.
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
  std::vector<double> losses_;  // each its batch's TOP's

  mutable std::mutex mutex_;  // of what follows
  std::map<std::int32_t, std::unique_ptr<Batch>> batches_;
  Held held_, most_held_;
  std::int64_t prefetched_rows_ = 0;
};

// Sums numbers over ranks in their order: each sums a part of them, then all get all parts.
void sum_over_ranks(std::vector<float>& numbers, InputExchange& exchange);

}  // namespace pipesim::exec
