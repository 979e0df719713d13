// Which rank has which part of which table: pieces, the default, plans from files.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/input_pipeline/sharding.h"
#include "tests/errors.h"
#include "tests/files.h"

namespace pipesim {
namespace {

RecommendationModel three_tables() {
  RecommendationModel model{.name = "m"};
  model.dense_features = 1;
  model.bottom = {6};
  model.top = {1};
  model.tables = {{"a", 11, 6, 1, IdCount::fixed, 0},
                  {"b", 3, 6, 1, IdCount::fixed, 0},
                  {"c", 100, 6, 1, IdCount::fixed, 0}};
  return model;
}

std::string plan_of(const std::string& tables) {
  return R"({"format":"pipesim-sharding-plan","version":1,"tables":{)" + tables + "}}";
}

// Of four ranks, two a node.
ShardingPlan read_plan(const std::string& tables) {
  return parse_sharding_plan(plan_of(tables), "p.json", three_tables(), 4, 2);
}
std::string plan_error(const std::string& tables) {
  return testing::input_error_of([&] { read_plan(tables); });
}

const char* const all_copied =
    R"("a":{"sharding":"data-parallel"},"b":{"sharding":"data-parallel"},)"
    R"("c":{"sharding":"data-parallel"})";

using Bounds = std::vector<std::int64_t>;
std::vector<Bounds> bounds_of(const std::vector<TablePiece>& pieces) {
  std::vector<Bounds> bounds;
  for (const TablePiece& piece : pieces) {
    bounds.push_back({piece.table, piece.rank, piece.row_begin, piece.row_end, piece.column_begin,
                      piece.column_end});
  }
  return bounds;
}

TEST(ShardingPlans, EveryWayIsReadAndMakesItsPieces) {
  const RecommendationModel model = three_tables();
  const ShardingPlan mixed = read_plan(
      "\n"
      R"("c":{"sharding":"row-wise"},"a":{"sharding":"column-wise","ranks":[3,0,1]},)"
      "\n"
      R"("b":{"sharding":"table-wise","rank":2})");
  EXPECT_EQ(bounds_of(pieces_of(mixed, model, 4, 2)), (std::vector<Bounds>{{0, 0, 0, 11, 2, 4},
                                                                           {0, 1, 0, 11, 4, 6},
                                                                           {0, 3, 0, 11, 0, 2},
                                                                           {1, 2, 0, 3, 0, 6},
                                                                           {2, 0, 0, 25, 0, 6},
                                                                           {2, 1, 25, 50, 0, 6},
                                                                           {2, 2, 50, 75, 0, 6},
                                                                           {2, 3, 75, 100, 0, 6}}));
  const ShardingPlan nodes =
      read_plan(R"("a":{"sharding":"table-row-wise","node":1},"b":{"sharding":"data-parallel"},)"
                R"("c":{"sharding":"table-row-wise","node":0})");
  EXPECT_EQ(bounds_of(pieces_of(nodes, model, 4, 2)), (std::vector<Bounds>{{0, 2, 0, 6, 0, 6},
                                                                           {0, 3, 6, 11, 0, 6},
                                                                           {1, 0, 0, 3, 0, 6},
                                                                           {1, 1, 0, 3, 0, 6},
                                                                           {1, 2, 0, 3, 0, 6},
                                                                           {1, 3, 0, 3, 0, 6},
                                                                           {2, 0, 0, 50, 0, 6},
                                                                           {2, 1, 50, 100, 0, 6}}));
  for (const ShardingPlan& plan : {mixed, nodes}) {
    EXPECT_EQ(parse_sharding_plan(to_json(plan, model, 2), "again.json", model, 4, 2), plan);
  }
}

// A last node that is not full shares rows over what it has.
TEST(ShardingPlans, LastNodeMayHaveFewerRanks) {
  const RecommendationModel model = three_tables();
  ShardingPlan plan{{{ShardingType::table_row_wise, {2}},
                     {ShardingType::table_wise, {0}},
                     {ShardingType::table_wise, {0}}}};
  const std::vector<TablePiece> pieces = pieces_of(plan, model, 3, 2);
  EXPECT_EQ(bounds_of({pieces.front()}), (std::vector<Bounds>{{0, 2, 0, 11, 0, 6}}));
}

TEST(ShardingPlans, RowsAreSharedEvenly) {
  for (const std::int64_t rows : {1, 2, 3, 7, 10, 11, 12, 100}) {
    for (const std::int64_t parts : {1, 2, 3, 4, 5, 7}) {
      EXPECT_EQ(rows_before(rows, parts, 0), 0);
      EXPECT_EQ(rows_before(rows, parts, parts), rows);
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t begin = rows_before(rows, parts, part);
        const std::int64_t end = rows_before(rows, parts, part + 1);
        EXPECT_EQ(end - begin, rows / parts + (part < rows % parts ? 1 : 0));
        for (std::int64_t row = begin; row < end; ++row) {
          EXPECT_EQ(part_of_row(rows, parts, row), part) << rows << " rows, " << parts << " parts";
        }
      }
    }
  }
}

// What the default puts where is no worse than 4/3 of the best (Graham's bound of largest first).
TEST(ShardingPlans, DefaultBalancesBytes) {
  const RecommendationModel model = three_tables();
  const ShardingPlan two = default_sharding(model, 2);
  EXPECT_EQ(two.tables[0], (TableSharding{ShardingType::table_wise, {1}}));
  EXPECT_EQ(two.tables[1], (TableSharding{ShardingType::table_wise, {1}}));
  EXPECT_EQ(two.tables[2], (TableSharding{ShardingType::table_wise, {0}}));
  for (const RecommendationModel& known : known_recommendation_models()) {
    for (const int ranks : {1, 2, 3, 8}) {
      const ShardingPlan plan = default_sharding(known, ranks);
      std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks), 0);
      std::int64_t all = 0;
      std::int64_t largest = 0;
      for (const TablePiece& piece : pieces_of(plan, known, ranks, ranks)) {
        bytes[static_cast<std::size_t>(piece.rank)] += piece.numbers() * 4;
        all += piece.numbers() * 4;
        largest = std::max(largest, piece.numbers() * 4);
      }
      EXPECT_EQ(all, known.table_parameters() * 4);
      EXPECT_LE(std::ranges::max(bytes), all / ranks + largest);
    }
  }
}

TEST(ShardingPlans, TheFormatsExampleIsRead) {
  RecommendationModel model = three_tables();
  model.tables.clear();
  for (const char* name : {"country", "item", "shop", "user", "word"}) {
    model.tables.push_back({name, 100, 6, 1, IdCount::fixed, 0});
  }
  const ShardingPlan plan = parse_sharding_plan(
      testing::format_example("Sharding plans: `pipesim-sharding-plan`"), "FORMAT.md", model, 4, 2);
  EXPECT_EQ(plan.tables[0].sharding, ShardingType::data_parallel);
  EXPECT_EQ(plan.tables[1].sharding, ShardingType::row_wise);
  EXPECT_EQ(plan.tables[2], (TableSharding{ShardingType::table_wise, {2}}));
  EXPECT_EQ(plan.tables[3], (TableSharding{ShardingType::column_wise, {0, 1}}));
  EXPECT_EQ(plan.tables[4], (TableSharding{ShardingType::table_row_wise, {0}}));
}

TEST(ShardingPlans, WrongPlansAreRefused) {
  const std::string rest = R"("b":{"sharding":"data-parallel"},"c":{"sharding":"data-parallel"})";
  EXPECT_EQ(plan_error(rest),
            "p.json:1:56: tables: table 'a' of m is nowhere; say how it is sharded");
  EXPECT_EQ(plan_error(std::string(all_copied) + ",\n" + R"("a":{"sharding":"row-wise"})"),
            "p.json:2:5: key 'a' is given twice; keep one");
  EXPECT_EQ(plan_error(std::string(all_copied) + ",\n" + R"("d":{"sharding":"row-wise"})"),
            "p.json:2:5: tables.d: unknown table 'd'; known, nearest first: a, b, c of m");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"rows"},)" + rest),
            "p.json:1:73: tables.a.sharding: unknown sharding 'rows'; known, nearest first: "
            "row-wise, table-wise, column-wise, table-row-wise, data-parallel");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"table-wise"},)" + rest),
            "p.json:1:61: tables.a: key 'rank' is missing");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"table-wise","rank":4},)" + rest),
            "p.json:1:93: tables.a.rank: there is no rank 4 among 4 ranks; give one from 0 to 3");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"column-wise","ranks":[0,2,0]},)" + rest),
            "p.json:1:100: tables.a.ranks[2]: rank 0 is given twice; name each once");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"column-wise","ranks":[]},)" + rest),
            "p.json:1:95: tables.a.ranks: an empty list; name at least one rank");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"column-wise","ranks":[0,1,2,3]},)" + rest),
            "p.json:1:95: tables.a.ranks: 4 ranks can't share the 6 columns of table 'a' evenly; "
            "name as many ranks as divide them");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"table-row-wise","node":2},)" + rest),
            "p.json:1:97: tables.a.node: there is no node 2 among 2 nodes; give one from 0 to 1");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"row-wise","rank":1},)" + rest),
            "p.json:1:91: tables.a: unknown key 'rank'; known, nearest first: sharding");
  EXPECT_EQ(plan_error(R"("a":{"sharding":"data-parallel"},"b":{"sharding":"row-wise"},)"
                       R"("c":{"sharding":"data-parallel"})"),
            "p.json:1:106: tables.b.sharding: table 'b' has 3 rows, fewer than the 4 ranks that "
            "would share them; make it table-wise or data-parallel");
  EXPECT_EQ(plan_error(R"("a":3,)" + rest), "p.json:1:61: tables.a: must be an object");
  const auto whole_error = [](const std::string& text) {
    return testing::input_error_of(
        [&] { parse_sharding_plan(text, "p.json", three_tables(), 4, 2); });
  };
  EXPECT_EQ(whole_error(R"({"format":"pipesim-sharding-plan","version":1,"tables":[]})"),
            "p.json:1:56: tables: must be an object, with one key per table");
  EXPECT_EQ(whole_error(R"({"format":"pipesim-sharding-plan","version":2,"tables":{}})"),
            "p.json:1:45: version: this program reads version 1");
}

}  // namespace
}  // namespace pipesim
