// A rank's parts of embedding tables, and the operations on them and with other ranks.
//
// Parts of table-wise, row-wise and column-wise tables are "exchanged": ids travel to them and
// pooled rows back. Those of data-parallel tables are "copies", which ids don't leave. What is
// summed up, and in which order, is the definition of the training's bits:
//
//   pooled row of a sample   0 + the rows of its ids in their order; of a row-wise table 0 + such
//                            sums of each rank's part, in the order of ranks
//   gradient of a row        0 + the gradients of pooled rows that it is in, in the order of
//                            ranks, samples and ids; of a copy 0 + such sums of each rank's
//                            samples, in the order of ranks
//
// For one rank. Only update() writes a table; other concurrent calls must be for
// different batches, and not read tables.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/input_pipeline/input_batch.h"
#include "exec/input_pipeline/input_workload.h"
#include "exec/input_pipeline/recommendation_training.h"
#include "traces/base/large_vector.h"

namespace pipesim::exec {

// Initial values of a row's columns begin ... end - 1: uniform between -1 / sqrt(rows) and 1 /
// sqrt(rows), from seed, table, row and column alone.
void fill_initial_row(std::uint64_t seed, int table, const EmbeddingTable& spec, std::int64_t row,
                      std::int64_t begin, std::int64_t end, float* to);

// Rows, ascending, and a gradient for each.
struct RowGradients {
  std::vector<std::int64_t> rows;
  std::vector<float> numbers;  // [rows x width]
};

// The state of one batch's ids on a rank, between steps of ShardedTables.
struct TableBatch {
  std::vector<std::vector<IdLists>> to_send;              // by rank, by its exchanged part
  std::vector<std::vector<std::int64_t>> announced;       // ids to receive: by rank, by own part
  std::vector<std::vector<std::int64_t>> expected;        // the same, once read
  std::vector<IdLists> received;                          // by own part: samples of all ranks
  std::vector<std::vector<float>> partial;                // their pooled rows, by own part
  std::vector<float> pooled;                              // [samples x tables x width], own samples
  std::vector<std::vector<float>> gradients;              // of partial
  std::vector<std::vector<RowGradients>> copy_gradients;  // by rank, by copy

  std::int64_t bytes() const;
};

class ShardedTables {
 public:
  struct Part {
    TablePiece piece;
    LargeVector<float> weights;  // [rows x columns]
    std::vector<float> state;    // for adagrad, one per row

    std::int64_t columns() const { return piece.column_end - piece.column_begin; }
  };

  // The training must outlive it.
  ShardedTables(const RecommendationTraining& training, int rank);

  // ---- In this order, for a batch
  // Sorts ids by destination, and tells ranks how many to expect.
  void exchange_splits(const InputBatch& batch, TableBatch& work, InputExchange& exchange) const;
  static void read_splits(TableBatch& work);
  void exchange_ids(TableBatch& work, InputExchange& exchange) const;
  // Hints to the processor that rows are needed soon, without reading them, since an update of the
  // previous batch may be in progress. Returns the number of distinct rows.
  std::int64_t prefetch(const InputBatch& batch, const TableBatch& work) const;
  void look_up(const InputBatch& batch, TableBatch& work) const;
  void exchange_pooled(TableBatch& work, InputExchange& exchange) const;
  // `by_pooled`: gradients with respect to work.pooled.
  void exchange_gradients(const InputBatch& batch, const std::vector<float>& by_pooled,
                          TableBatch& work, InputExchange& exchange) const;
  void update(const TableBatch& work);

  const std::vector<Part>& exchanged() const { return exchanged_; }
  const std::vector<Part>& copies() const { return copies_; }
  std::vector<Part>& exchanged() { return exchanged_; }
  std::vector<Part>& copies() { return copies_; }
  std::int64_t bytes() const;
  std::int64_t state_bytes() const;

 private:
  struct Term;  // of a row's gradient

  Part make_part(const TablePiece& piece) const;
  std::int64_t batch_size() const { return training_.batch_size; }
  std::int64_t width() const { return training_.model.width(); }
  std::int64_t tables() const { return static_cast<std::int64_t>(training_.model.tables.size()); }
  RowGradients sum_by_row(std::vector<Term> terms, std::int64_t columns) const;
  void step(Part& part, const RowGradients& gradients) const;

  const RecommendationTraining& training_;
  std::vector<std::vector<TablePiece>> exchanged_of_;  // by rank
  std::vector<Part> exchanged_;
  std::vector<Part> copies_;
};

}  // namespace pipesim::exec
