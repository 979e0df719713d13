#include "exec/input_pipeline/recommendation_training.h"

#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim::exec {

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

void check_table_memory(const RecommendationTraining& training, int first_rank, int end_rank) {
  const std::int64_t available = available_memory_bytes();
  std::int64_t bytes = 0;
  for (const TablePiece& piece :
       pieces_of(training.plan, training.model, training.ranks, training.ranks)) {
    if (piece.rank < first_rank || piece.rank >= end_rank) continue;
    bytes += 4 * (piece.numbers() + (training.has_states() ? piece.row_end - piece.row_begin : 0));
    if (bytes <= available) continue;
    const EmbeddingTable& table = training.model.tables[static_cast<std::size_t>(piece.table)];
    throw input_error(fmt::format(
        "table '{}' ({}): rank {} has no memory for its part, of which this machine has {} "
        "available; take fewer rows or more machines",
        printable(table.name), format_bytes(table.bytes()), piece.rank, format_bytes(available)));
  }
}

}  // namespace pipesim::exec
