// Which rank has which part of which table.
//
// A plan gives each table one way of being divided; pieces say what that puts where. Plain
// values.
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
  column_wise,     // columns on some ranks, as many on each
  data_parallel,   // a copy on each rank
  table_row_wise,  // rows on all ranks of one node, likewise
};
std::string_view sharding_type_name(ShardingType sharding);  // "table-wise"

struct TableSharding {
  ShardingType sharding = ShardingType::table_wise;
  // The rank of table_wise; those of column_wise, each once, in the order of columns; of
  // table_row_wise the first rank of the node. Empty for the others.
  std::vector<int> ranks;

  bool operator==(const TableSharding&) const = default;
};

struct ShardingPlan {
  std::vector<TableSharding> tables;  // by table of the model

  bool operator==(const ShardingPlan&) const = default;
};

// What one rank has of one table.
struct TablePiece {
  int table = 0;
  int rank = 0;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t column_begin = 0, column_end = 0;

  std::int64_t numbers() const { return (row_end - row_begin) * (column_end - column_begin); }
};

// How many of a table's rows come before those of the `part`-th of `parts`: each has as many as
// the others, the first ones one more where they can't.
constexpr std::int64_t rows_before(std::int64_t rows, std::int64_t parts, std::int64_t part) {
  return rows / parts * part + std::min(part, rows % parts);
}
// The part that has a row.
constexpr std::int64_t part_of_row(std::int64_t rows, std::int64_t parts, std::int64_t row) {
  const std::int64_t each = rows / parts;
  const std::int64_t longer = rows % parts * (each + 1);  // rows of the parts with one more
  return row < longer ? row / (each + 1) : rows % parts + (row - longer) / each;
}

// The ranks of a node from `first` on: the last one of a run may have fewer.
constexpr int ranks_of_node(int first, int ranks, int ranks_per_node) {
  return std::min(ranks_per_node, ranks - first);
}

// All pieces, by table, then rank. `ranks_per_node` matters to table_row_wise alone.
std::vector<TablePiece> pieces_of(const ShardingPlan& plan, const RecommendationModel& model,
                                  int ranks, int ranks_per_node);

// Every table whole on one rank: the largest first, each to the rank that has the fewest bytes so
// far, of equals the lowest. It looks at bytes alone; what is fastest, the simulator says
// (predict/choose_sharding.h).
ShardingPlan default_sharding(const RecommendationModel& model, int ranks);

// `pipesim-sharding-plan`, in traces/FORMAT.md. An input error names line and table: one that is
// nowhere, there twice or not the model's; fewer rows than ranks; columns that ranks can't share; a
// rank or node that is not, or is named twice.
ShardingPlan parse_sharding_plan(std::string_view text, const std::string& file,
                                 const RecommendationModel& model, int ranks, int ranks_per_node);
ShardingPlan read_sharding_plan(const std::string& path, const RecommendationModel& model,
                                int ranks, int ranks_per_node);
Json sharding_json(const ShardingPlan& plan, const RecommendationModel& model, int ranks_per_node);
std::string to_json(const ShardingPlan& plan, const RecommendationModel& model, int ranks_per_node);

}  // namespace pipesim
