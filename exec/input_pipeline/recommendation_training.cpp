#include "exec/input_pipeline/recommendation_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr double bytes_of_number = 4;

// Parameters and gradients.
double dense_bytes(const RecommendationModel& model) {
  return 2 * bytes_of_number *
         (static_cast<double>(model.bottom_parameters()) +
          static_cast<double>(model.top_parameters()));
}

double whole_tables_bytes(const RecommendationTraining& training) {
  double numbers = 0;
  for (const EmbeddingTable& table : training.model.tables) {
    const auto states = training.has_states() ? 1 : 0;
    numbers += static_cast<double>(table.rows) * static_cast<double>(table.width + states);
  }
  return bytes_of_number * numbers;
}

// A lower bound for one batch of a rank: its samples, ids sent and received, pooled rows and their
// gradients, and activations.
double batch_bytes(const RecommendationTraining& training) {
  const RecommendationModel& model = training.model;
  constexpr double bytes_of_id = 8;
  double ids = 0;
  for (const EmbeddingTable& table : model.tables) {
    ids += bytes_of_id * static_cast<double>(1 + table.ids_per_sample);
  }
  auto numbers = static_cast<double>(model.dense_features + 1);
  numbers += 4 * static_cast<double>(std::ssize(model.tables) * model.width());
  for (const auto* layers : {&model.bottom, &model.top}) {
    for (const std::int64_t width : *layers) numbers += static_cast<double>(width);
  }
  numbers += static_cast<double>(model.interacted());
  return static_cast<double>(training.batch_size) * (3 * ids + bytes_of_number * numbers);
}

}  // namespace

void check_executable(const RecommendationTraining& training) {
  for (std::size_t t = 0; t < training.plan.tables.size(); ++t) {
    const ShardingType sharding = training.plan.tables[t].sharding;
    if (sharding != ShardingType::table_row_wise) continue;
    throw input_error(fmt::format(
        "table '{}': {} sharding is simulated only; to execute it, take table-wise, row-wise, "
        "column-wise or data-parallel",
        printable(training.model.tables[t].name), sharding_type_name(sharding)));
  }
}

void check_training_memory(const RecommendationTraining& training, int first_rank, int end_rank,
                           int references) {
  const std::int64_t available = available_memory_bytes();
  std::int64_t bytes = 0;  // of tables
  for (const TablePiece& piece :
       pieces_of(training.plan, training.model, training.ranks, training.ranks)) {
    if (piece.rank < first_rank || piece.rank >= end_rank) continue;
    bytes += 4 * (piece.numbers() + (training.has_states() ? piece.row_end - piece.row_begin : 0));
    if (bytes <= available) continue;
    const EmbeddingTable& table = training.model.tables[static_cast<std::size_t>(piece.table)];
    throw input_error(fmt::format(
        "table '{}' ({}): rank {} has no memory for its part: this machine has {} available; take "
        "fewer rows or more machines",
        printable(table.name), format_bytes(table.bytes()), piece.rank, format_bytes(available)));
  }
  const int ranks = end_rank - first_rank;
  const double dense = dense_bytes(training.model) * ranks;
  const double batches = batch_bytes(training) * ranks;
  const double references_bytes = whole_tables_bytes(training) * references;
  const double all = static_cast<double>(bytes) + dense + batches + references_bytes;
  if (all <= static_cast<double>(available)) return;
  const double most = std::max({dense, batches, references_bytes});
  const std::string takes =
      fmt::format("takes {:.3g} GiB on {}, and this machine has {} available", most / (1 << 30),
                  plural(ranks, "rank"), format_bytes(available));
  if (most == dense) {
    throw input_error(fmt::format("model '{}': its dense part {}; take smaller layers",
                                  printable(training.model.name), takes));
  }
  if (most == batches) {
    throw input_error(
        fmt::format("--batch-size {}: a batch {}; take smaller ones", training.batch_size, takes));
  }
  throw input_error(fmt::format("--verify: what one rank makes of all tables {}; omit it", takes));
}

}  // namespace pipesim::exec
