// Which rank has which part of which table.
//
// A plan gives each table one way of being divided; pieces say what that puts where. Plain
// values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim {

enum class Sharding : std::uint8_t {
  table_wise,      // the whole table on one rank
  row_wise,        // rows on all ranks, as many on each as can be, those of lower ranks first
  column_wise,     // columns on some ranks, as many on each
  data_parallel,   // a copy on each rank
  table_row_wise,  // rows on all ranks of one node
};
std::string_view sharding_name(Sharding sharding);  // "table-wise"

struct TableSharding {
  Sharding sharding = Sharding::table_wise;
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

// All pieces, by table, then rank. `ranks_per_node` matters to table_row_wise alone.
std::vector<TablePiece> pieces_of(const ShardingPlan& plan, const RecommendationModel& model,
                                  int ranks, int ranks_per_node);

// Tables one after the other, the largest first, each to the rank that has the fewest bytes so
// far; those of fewer bytes than a batch's worth of exchange would need stay table-wise, too.
// A plain default: what is best, the simulator says (predict/choose_sharding.h).
ShardingPlan default_sharding(const RecommendationModel& model, int ranks);

// `pipesim-sharding-plan`, in traces/FORMAT.md. An input error names the table: one that is
// nowhere, or there twice, or not the model's; fewer rows than ranks; a rank that is not.
ShardingPlan parse_sharding_plan(const std::string& text, const std::string& file,
                                 const RecommendationModel& model, int ranks, int ranks_per_node);
std::string to_json(const ShardingPlan& plan, const RecommendationModel& model);

}  // namespace pipesim
