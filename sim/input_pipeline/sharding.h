// Which rank holds which part of each table.
// A plan has one way to divide each table; pieces are the resulting parts by rank. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input_pipeline/recommendation_model.h"
#include "traces/base/json.h"

namespace pipesim {

enum class ShardingType : std::uint8_t {
  table_wise,      // the whole table on one rank
  row_wise,        // rows on all ranks, in their order, split by rows_before()
  column_wise,     // columns on some ranks, evenly
  data_parallel,   // a copy on each rank
  table_row_wise,  // rows on all ranks of one node, likewise
};
std::string_view sharding_type_name(ShardingType sharding);  // "table-wise"

struct TableSharding {
  ShardingType sharding = ShardingType::table_wise;
  // The rank for table_wise; those for column_wise, each once, in the order of columns; the first
  // rank of the node for table_row_wise. Empty for the others.
  std::vector<int> ranks;

  bool operator==(const TableSharding&) const = default;
};

struct ShardingPlan {
  std::vector<TableSharding> tables;  // by table of the model

  bool operator==(const ShardingPlan&) const = default;
};

// One rank's part of one table.
struct TablePiece {
  int table = 0;
  int rank = 0;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t column_begin = 0, column_end = 0;

  std::int64_t numbers() const { return (row_end - row_begin) * (column_end - column_begin); }
};

// How many of a table's rows come before those of the `part`-th of `parts`: all have the same
// number, the first ones one more if rows don't divide.
constexpr std::int64_t rows_before(std::int64_t rows, std::int64_t parts, std::int64_t part) {
  return rows / parts * part + std::min(part, rows % parts);
}
// The part that has a row.
constexpr std::int64_t part_of_row(std::int64_t rows, std::int64_t parts, std::int64_t row) {
  const std::int64_t each = rows / parts;
  const std::int64_t longer = rows % parts * (each + 1);  // rows of the parts with one more
  return row < longer ? row / (each + 1) : rows % parts + (row - longer) / each;
}

// The number of ranks of the node that starts at `first`: the last one of a run may have fewer.
constexpr int ranks_of_node(int first, int ranks, int ranks_per_node) {
  return std::min(ranks_per_node, ranks - first);
}

// All pieces, by table, then rank. `ranks_per_node` matters only to table_row_wise.
std::vector<TablePiece> pieces_of(const ShardingPlan& plan, const RecommendationModel& model,
                                  int ranks, int ranks_per_node);

// Every table whole on one rank: the largest first, each to the rank that has the fewest bytes so
// far, the lowest at a tie. It looks only at bytes; predict/choose_sharding.h finds a fast plan.
ShardingPlan default_sharding(const RecommendationModel& model, int ranks);

// `pipesim-sharding-plan`, in traces/FORMAT.md. An input error names line and table: a table that
// is missing, repeated or not the model's; fewer rows than ranks; columns that ranks can't divide;
// a rank or node that does not exist, or is named twice.
ShardingPlan parse_sharding_plan(std::string_view text, const std::string& file,
                                 const RecommendationModel& model, int ranks, int ranks_per_node);
ShardingPlan read_sharding_plan(const std::string& path, const RecommendationModel& model,
                                int ranks, int ranks_per_node);
Json sharding_json(const ShardingPlan& plan, const RecommendationModel& model, int ranks_per_node);
std::string to_json(const ShardingPlan& plan, const RecommendationModel& model, int ranks_per_node);

}  // namespace pipesim
