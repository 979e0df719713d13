// Tables: their figures are those that `pipesim compare --json` prints.
#include "gui/tables/tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "gui/scene/shading.h"
#include "gui/tables/histogram.h"
#include "sim/report/json.h"
#include "sim/report/words.h"
#include "tests/events.h"
#include "tests/scenes.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

using Json = nlohmann::json;
using testing::document_of;
using testing::perturbed_document;

// As the file that a user gets.
Json json_of(const Document& document) {
  return Json::parse(comparison_json(*document.traces[0]->run, *document.traces[1]->run,
                                     document.pair->comparison));
}

// Every row has a cell, and a number, for every column.
void expect_whole(const Table& table) {
  EXPECT_FALSE(table.title.empty());
  for (const Table::Row& row : table.rows) {
    EXPECT_EQ(row.cells.size(), table.columns.size()) << table.title;
    EXPECT_EQ(row.values.size(), table.columns.size()) << table.title;
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (!table.columns[i].number) {
        EXPECT_EQ(row.values[i], 0);
      }
    }
  }
}

std::size_t column_of(const Table& table, const std::string& name) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == name) return i;
  }
  ADD_FAILURE() << table.title << " has no column " << name;
  return 0;
}
std::int64_t value(const Table& table, std::size_t row, const std::string& column) {
  return table.rows.at(row).values.at(column_of(table, column));
}
std::string cell(const Table& table, std::size_t row, const std::string& column) {
  return table.rows.at(row).cells.at(column_of(table, column));
}
// The row whose first cell is that.
const Table::Row& row_of(const Table& table, const std::string& label) {
  for (const Table::Row& row : table.rows) {
    if (row.cells.front() == label) return row;
  }
  ADD_FAILURE() << table.title << " has no row " << label;
  return table.rows.front();
}

const Span& span_of(const Document& document, const Pick& pick) {
  return document.traces.at(static_cast<std::size_t>(pick.trace))->run->spans[pick.ref];
}

// Of times that are instants: "1.500 ms".
std::string instant(std::int64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) / 1e6);
}

class TablesOf : public ::testing::TestWithParam<const char*> {};

TEST_P(TablesOf, CausesAreThoseOfTheComparison) {
  const Document document = perturbed_document(GetParam());
  const Json all = json_of(document);
  // Those of 0.5 % of the measured iteration or more; others are one row.
  const std::int64_t least_ns = all.at("makespan_ns").at("measured").get<std::int64_t>() / 200;
  Json json = Json::array();
  std::int64_t others_ns = 0;
  for (const Json& cause : all.at("root_causes")) {
    const std::int64_t effect_ns = cause["effect_ns"];
    const std::int64_t alone_ns = cause["alone_ns"];
    if (std::max(std::abs(effect_ns), std::abs(alone_ns)) >= least_ns) {
      json.push_back(cause);
    } else {
      others_ns += effect_ns;
    }
  }
  const Table table = cause_table(document);
  expect_whole(table);
  ASSERT_FALSE(json.empty());
  ASSERT_LT(json.size(), all.at("root_causes").size());
  ASSERT_EQ(table.rows.size(), json.size() + 2);
  EXPECT_EQ(value(table, json.size() + 1, "effect"), others_ns);
  EXPECT_EQ(value(table, json.size(), "effect"), all.at("noise").at("effect_ns"));
  EXPECT_EQ(cell(table, json.size(), "term"), "noise");
  for (std::size_t i = 0; i < json.size(); ++i) {
    EXPECT_EQ(value(table, i, "effect"), json[i]["effect_ns"]);
    EXPECT_EQ(value(table, i, "alone"), json[i]["alone_ns"]);
    EXPECT_EQ(cell(table, i, "term"), json[i]["term"]);
    EXPECT_EQ(cell(table, i, "why"), json[i]["why"]);
    EXPECT_EQ(cell(table, i, "rank"), json[i]["rank"].is_null() ? "" : json[i]["rank"].dump());
    // What is shown on a click is of that stage and kind.
    ASSERT_FALSE(table.rows[i].about.empty());
    for (const Pick& pick : table.rows[i].about) {
      const Action& action = span_of(document, pick).action;
      if (json[i]["stage"].is_number()) {
        EXPECT_EQ(action.stage, json[i]["stage"]);
      }
      if (json[i]["kind"].is_string()) {
        EXPECT_EQ(kind_name(action.kind), json[i]["kind"]);
      }
    }
  }
}

TEST_P(TablesOf, GapIsThatOfTheComparison) {
  const Document document = perturbed_document(GetParam());
  const Json json = json_of(document).at("gap_ns");
  const Table table = gap_table(document);
  expect_whole(table);
  // Terms that concern neither run are 0.
  ASSERT_LE(table.rows.size(), json.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    EXPECT_EQ(value(table, i, "difference"), json.at(cell(table, i, "term")));
    if (i + 1 < table.rows.size()) sum += value(table, i, "difference");
  }
  EXPECT_EQ(cell(table, table.rows.size() - 1, "term"), "total");
  EXPECT_EQ(sum, json.at("total"));
}

TEST_P(TablesOf, StageKindsAreThoseOfTheComparison) {
  const Document document = perturbed_document(GetParam());
  const Json json = json_of(document).at("stage_kinds");
  const Table table = stage_kind_table(document);
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    EXPECT_EQ(value(table, i, "stage"), json[i]["stage"]);
    EXPECT_EQ(value(table, i, "rank"), json[i]["rank"]);
    EXPECT_EQ(cell(table, i, "kind"), json[i]["kind"]);
    EXPECT_EQ(value(table, i, "predicted median"), json[i]["predicted_ns"]["p50"]);
    EXPECT_EQ(value(table, i, "measured p10"), json[i]["measured_ns"]["p10"]);
    EXPECT_EQ(value(table, i, "measured median"), json[i]["measured_ns"]["p50"]);
    EXPECT_EQ(value(table, i, "measured p90"), json[i]["measured_ns"]["p90"]);
    for (const char* late : {"own", "launch", "communication", "inherited"}) {
      EXPECT_EQ(value(table, i, late), json[i]["lateness_ns"][late]);
    }
    const double p = json[i]["predicted_ns"]["p50"];
    const double m = json[i]["measured_ns"]["p50"];
    EXPECT_NEAR(static_cast<double>(value(table, i, "error")), (m - p) / p * 1e6, 1);
    // All of the stage and kind, on both sides.
    EXPECT_EQ(table.rows[i].about.size(), 16U);
    for (const Pick& pick : table.rows[i].about) {
      EXPECT_EQ(span_of(document, pick).action.stage, json[i]["stage"]);
      EXPECT_EQ(kind_name(span_of(document, pick).action.kind), json[i]["kind"]);
    }
  }
}

TEST_P(TablesOf, BubblesAreThoseOfTheComparison) {
  const Document document = perturbed_document(GetParam());
  const Json json = json_of(document);
  const Table table = bubble_table(document);
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 8U);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const Json& own = json.at("ranks")
                          .at(cell(table, i, "run"))
                          .at(static_cast<std::size_t>(value(table, i, "rank")));
    EXPECT_EQ(value(table, i, "busy"), own["busy_ns"]);
    EXPECT_EQ(value(table, i, "warm-up"), own["bubble_ns"]["warmup"]);
    EXPECT_EQ(value(table, i, "steady"), own["bubble_ns"]["steady"]);
    EXPECT_EQ(value(table, i, "drain"), own["bubble_ns"]["drain"]);
    EXPECT_EQ(value(table, i, "p2p"), own["bubble_ns"]["p2p"]);
    EXPECT_EQ(value(table, i, "in flight"), own["peak_activation_chunks"]);
    EXPECT_EQ(value(table, i, "peak"), own["peak_memory_bytes"]);
    EXPECT_EQ(cell(table, i, "peak in"), own["peak_action"]);
    for (const Pick& pick : table.rows[i].about) {
      EXPECT_TRUE(pick.bubble);
      EXPECT_EQ(span_of(document, pick).rank, value(table, i, "rank"));
    }
  }
  const double share = json["bubble_fraction"]["measured"];
  EXPECT_NE(table.note.find("measured " + format_percent(share)), std::string::npos) << table.note;
}

// The CSV of the operations, by its own columns, is that of `pipesim compare --operations`.
TEST_P(TablesOf, OperationsAreThoseOfTheComparison) {
  const Document document = perturbed_document(GetParam());
  const std::string csv = operations_csv(document.pair->comparison);
  std::map<std::string, std::map<std::string, std::string>> expected;
  std::vector<std::string_view> header;
  for (const std::string_view line : split(csv, '\n')) {
    if (line.empty()) continue;
    const auto cells = split(line, ',');
    if (header.empty()) {
      header = cells;
      continue;
    }
    auto& own = expected[std::string(cells[0])];
    for (std::size_t i = 0; i < cells.size(); ++i) own[std::string(header[i])] = cells[i];
  }
  const Table table = operation_table(document);
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), expected.size());
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const auto& own = expected.at(cell(table, i, "action"));
    const auto expect = [&](const char* column, const char* other) {
      const std::string text = cell(table, i, column);
      EXPECT_EQ(text.empty() ? "" : std::to_string(value(table, i, column)), own.at(other));
    };
    expect("rank", "rank_measured");
    expect("predicted start", "start_ns_predicted");
    expect("measured start", "start_ns_measured");
    expect("predicted duration", "duration_ns_predicted");
    expect("measured duration", "duration_ns_measured");
    expect("predicted slack", "slack_ns_predicted");
    expect("measured slack", "slack_ns_measured");
    expect("own", "own_ns");
    expect("launch", "launch_ns");
    expect("communication", "communication_ns");
    expect("inherited", "inherited_ns");
    EXPECT_EQ(cell(table, i, "order").empty(), own.at("swapped") == "0");
    EXPECT_LE(value(table, i, "lateness"), before);
    before = value(table, i, "lateness");
  }
  const Table latest = operation_table(document, 5);
  ASSERT_EQ(latest.rows.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(latest.rows[i].cells, table.rows[i].cells);
  EXPECT_NE(latest.note.find("5 latest"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, TablesOf, ::testing::Values("1f1b", "zb-h1", "interleaved"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Tables, SayWhyTheyAreEmpty) {
  const Document alone = document_of(testing::perturbed().measured);
  for (const Table& table : {cause_table(alone), gap_table(alone), stage_kind_table(alone),
                             operation_table(alone), name_table(alone)}) {
    expect_whole(table);
    EXPECT_TRUE(table.rows.empty());
    EXPECT_FALSE(table.note.empty()) << table.title;
  }
  const Document nothing;
  EXPECT_TRUE(bubble_table(nothing).rows.empty());
  EXPECT_TRUE(trace_table(nothing).rows.empty());
  EXPECT_EQ(verdict(nothing), "Nothing is open.");
}

// Whatever is compared, and in whatever order.
TEST(Tables, CallSidesByTheirSources) {
  auto [predicted, measured] = testing::perturbed();
  measured.about.source = Source::profiled;
  const Document document = document_of(predicted, measured);
  const auto names = [](const Table& table) {
    std::string all;
    for (const Table::Column& column : table.columns) all += column.name + ",";
    return all;
  };
  EXPECT_TRUE(
      names(stage_kind_table(document))
          .starts_with(
              "rank,stage,kind,predicted median,profiled p10,profiled median,profiled p90,"));
  EXPECT_TRUE(
      names(operation_table(document)).starts_with("action,rank,predicted start,profiled "));
  EXPECT_EQ(gap_table(document).rows.back().cells[2], "profiled minus predicted");
  EXPECT_EQ(name_of_run(document, 1), "profiled");
  const Document turned = compared(document, 1, 0);
  EXPECT_EQ(gap_table(turned).rows.back().cells[2], "predicted minus profiled");
  const Document alike = document_of(predicted, predicted);
  EXPECT_EQ(gap_table(alike).rows.back().cells[2], "second minus first");
  EXPECT_EQ(name_of_run(alike, 0), "first");
  for (const Document* each : {&document, &turned, &alike}) {
    EXPECT_EQ(names(operation_table(*each)).find("measured"), std::string::npos);
  }
}

TEST(Tables, TracesAreListed) {
  Document document = perturbed_document();
  document.traces.push_back(testing::open_trace(testing::events()));
  const Table table = trace_table(document);
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[1].cells,
            (std::vector<std::string>{"measured", "second", "measured", "1f1b", "4", "4", "8", "3",
                                      format_time(value(table, 1, "makespan")), "0"}));
  EXPECT_EQ(value(table, 1, "makespan"), json_of(document)["makespan_ns"]["measured"]);
  EXPECT_EQ(value(table, 2, "makespan"), 19'000);
}

TEST(Tables, NamesOfSlicesBySelfTime) {
  Document document;
  document.traces = {testing::open_trace(testing::events())};
  const Table table = name_table(document);
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[0].cells[0], "kernel");
  EXPECT_EQ(value(table, 0, "total"), 14'000);
  EXPECT_EQ(value(table, 1, "self"), 4'000);
  EXPECT_EQ(value(table, 2, "self"), 2'500);
  EXPECT_EQ(value(table, 2, "total"), 8'000);
  EXPECT_EQ(value(table, 3, "greatest"), 1'500);
  EXPECT_EQ(table.rows[3].about.at(0), (Pick{0, 1, false}));
  EXPECT_EQ(name_table(document, 2).rows.size(), 2U);
}

// A run of one pipeline, from the closed form: 1F1B with p ranks and m microbatches has
// p - 1 idle slots of m + p - 1.
TEST(Tables, VerdictsInOneSentence) {
  const Schedule schedule = generate(ScheduleRequest{"1f1b", 4, 8, {}, {}, {}});
  const Document run = document_of(
      pipesim::testing::recorded(schedule, pipesim::testing::costs_of(4, 1'000'000, 2'000'000)));
  EXPECT_EQ(verdict(run), "1f1b, 4 ranks, 8 microbatches: 33.00 ms, of which 27.3 % bubble.");
  const Document pair = perturbed_document();
  EXPECT_EQ(verdict(pair), json_of(pair)["verdict"]);
  Document events;
  events.traces = {testing::open_trace(testing::events())};
  EXPECT_EQ(verdict(events), "4 slices on 2 tracks, 19 us; no pipeline is known in it.");
}

TEST(Tables, PeaksOfOneRunAreThoseOfItsSide) {
  const Document pair = perturbed_document();
  const Table both = bubble_table(pair);
  for (const int side : {0, 1}) {
    const Document alone = document_of(RecordedRun(testing::run_of(pair, side)));
    const Table table = bubble_table(alone);
    ASSERT_EQ(table.rows.size(), 4U);
    for (std::size_t rank = 0; rank < table.rows.size(); ++rank) {
      const std::size_t row = 2 * rank + static_cast<std::size_t>(side);
      EXPECT_GT(value(table, rank, "peak"), 0);
      EXPECT_EQ(value(table, rank, "peak"), value(both, row, "peak"));
      EXPECT_EQ(cell(table, rank, "peak in"), cell(both, row, "peak in"));
      EXPECT_FALSE(cell(table, rank, "peak in").empty());
    }
  }
}

TEST(Tables, CsvIsQuotedWhereNeeded) {
  Table table;
  table.columns = {{"name", false, {}}, {"time, all", true, "ns"}};
  table.rows = {{{"a,b", "1.5 us"}, {0, 1500}, {}},
                {{"say \"hi\"\nthere", "-"}, {0, 0}, {}},
                {{"plain", ""}, {0, 0}, {}}};
  EXPECT_EQ(to_csv(table),
            "name,\"time, all (ns)\"\r\n"
            "\"a,b\",1500\r\n"
            "\"say \"\"hi\"\"\nthere\",0\r\n"
            "plain,\r\n");
}

TEST(Details, AreThoseOfTheOperationOnBothSides) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  const Comparison& comparison = document.pair->comparison;
  const Operations& operations = comparison.operations;
  for (OperationId id = 0; id < operations.size(); ++id) {
    for (const Side side : both_sides) {
      const Table table =
          detail_table(document, scene, {side, document.pair->span_of[side][id], false});
      expect_whole(table);
      EXPECT_EQ(table.title, to_text(operations.actions[id]));
      ASSERT_EQ(table.columns.size(), 4U);
      const auto both = [&](auto text) {
        return std::pair(text(predicted_side), text(measured_side));
      };
      const auto cells = [&](const char* label) {
        const auto& own = row_of(table, label).cells;
        return std::pair(own[1], own[2]);
      };
      EXPECT_EQ(cells("slack"),
                both([&](Side s) { return format_time(comparison.sides[s].played.slack_ns[id]); }));
      if (operations.transfers(id)) {
        EXPECT_EQ(cells("sent"),
                  both([&](Side s) { return instant(operations.sides[s][id].sent_ns); }));
        EXPECT_EQ(cells("arrived"),
                  both([&](Side s) { return instant(operations.sides[s][id].end_ns); }));
        continue;
      }
      EXPECT_EQ(cells("start"),
                both([&](Side s) { return instant(operations.sides[s][id].start_ns); }));
      EXPECT_EQ(cells("duration"),
                both([&](Side s) { return format_time(operations.sides[s][id].duration_ns()); }));
      EXPECT_EQ(row_of(table, "end").cells[3], signed_time(comparison.lateness[id].total_ns()));
      EXPECT_EQ(row_of(table, "ends late: itself").cells[3],
                signed_time(comparison.lateness[id].own_ns));
      EXPECT_EQ(row_of(table, "  what it waits for").cells[3],
                signed_time(comparison.lateness[id].inherited_ns));
      for (const Side s : both_sides) {
        const OperationId input = operations.sides[s][id].input;
        if (input == no_operation) continue;
        EXPECT_EQ(row_of(table, "input arrived").cells[1U + s],
                  instant(operations.sides[s][input].end_ns));
      }
    }
  }
}

// Those of another iteration have their own times, and no word on lateness.
TEST(Details, OfAnotherIteration) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  const RecordedRun& run = *document.traces[1]->run;
  const std::size_t other = run.median_iteration() == 0 ? 1 : 0;
  const RecordedIteration& iteration = run.iterations[other];
  std::size_t place = iteration.begin;
  while (is_transfer(run.spans[place].action.kind)) ++place;
  const Span& span = run.spans[place];
  const Table table = detail_table(document, scene, {1, static_cast<Ref>(place), false});
  expect_whole(table);
  EXPECT_EQ(row_of(table, "iteration").cells[2], std::to_string(span.iteration));
  EXPECT_EQ(row_of(table, "start").cells[2], instant(span.start_ns - iteration.start_ns));
  EXPECT_EQ(row_of(table, "duration").cells[2], format_time(span.end_ns - span.start_ns));
  for (const Table::Row& row : table.rows) EXPECT_NE(row.cells[0], "ends later by");
}

TEST(Details, OfIdleTimeByKind) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  // Rank 3 waits for its first input: three forwards and three hops of 20 us.
  const auto& operations = document.pair->comparison.operations;
  const OperationId first = operations.lists[measured_side][3].front();
  const Table table =
      detail_table(document, scene, {1, document.pair->span_of[measured_side][first], true});
  expect_whole(table);
  EXPECT_EQ(table.title, "idle before 3F0");
  EXPECT_EQ(row_of(table, "in all").cells[1], format_time(3'060'000));
  EXPECT_EQ(row_of(table, "p2p: its input was on its way").cells[1], format_time(20'000));
  EXPECT_EQ(row_of(table, "warm-up: before its first backward").cells[1], format_time(3'040'000));
  EXPECT_EQ(row_of(table, "in all").cells[2],
            format_time(operations.sides[measured_side][first].start_ns));
}

TEST(Details, OfASlice) {
  Document document;
  document.traces = {testing::open_trace(testing::events())};
  const Scene scene = build_scene(document, {});
  const Table table = detail_table(document, scene, {0, 0, false});
  expect_whole(table);
  EXPECT_EQ(table.title, "step");
  EXPECT_EQ(row_of(table, "track").cells[1], "python 1, thread 7");
  EXPECT_EQ(row_of(table, "start").cells[1], "0.001 ms") << "500 ns: the first sample is at 500";
  EXPECT_EQ(row_of(table, "duration").cells[1], format_time(8'000));
  EXPECT_EQ(row_of(table, "without what is in it").cells[1], format_time(2'500));
  const Table kernel = detail_table(document, scene, {0, 3, false});
  EXPECT_EQ(row_of(kernel, "stream").cells[1], "7");
  EXPECT_EQ(row_of(kernel, "grid").cells[1], "[1, 2: 3]");
  EXPECT_EQ(row_of(kernel, "category").cells[1], "gpu");
  EXPECT_FALSE(detail_table(document, scene, {}).note.empty());
}

// By what and run, of one cell a row.
std::int64_t sum_of(const Table& table, const std::string& what, const std::string& run,
                    const std::string& column) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (cell(table, i, "what") == what && cell(table, i, "run") == run) {
      return value(table, i, column);
    }
  }
  return 0;
}

// The whole compared iteration as an area: its sums are the metrics'.
TEST(Area, SumsOfTheIterationAreItsMetrics) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  const Json json = json_of(document);
  View view;
  view.area = TimeRange{0, document.pair->comparison.sides[measured_side].makespan_ns};
  const Table table = area_table(document, scene, view);
  expect_whole(table);
  for (const std::string side : {"predicted", "measured"}) {
    std::map<std::string, std::int64_t> expected;
    for (const Json& rank : json["ranks"][side]) {
      expected["warm-up bubble"] += rank["bubble_ns"]["warmup"].get<std::int64_t>();
      expected["steady bubble"] += rank["bubble_ns"]["steady"].get<std::int64_t>();
      expected["drain bubble"] += rank["bubble_ns"]["drain"].get<std::int64_t>();
      expected["p2p bubble"] += rank["bubble_ns"]["p2p"].get<std::int64_t>();
      expected["busy"] += rank["busy_ns"].get<std::int64_t>();
    }
    std::int64_t busy = 0;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (cell(table, i, "run") != side) continue;
      const std::string what = cell(table, i, "what");
      const std::int64_t time = value(table, i, "sum");
      if (what == "F" || what == "B") {
        busy += time;
        EXPECT_EQ(value(table, i, "count"), 32);
        EXPECT_EQ(value(table, i, "mean"), time / 32);
      } else {
        EXPECT_EQ(time, expected[what]) << side << what;
      }
    }
    EXPECT_EQ(busy, expected["busy"]);
  }
  EXPECT_EQ(sum_of(table, "F", "measured", "difference"),
            sum_of(table, "F", "measured", "sum") - sum_of(table, "F", "predicted", "sum"));
}

// Of an area that cuts actions: what is told of their lengths is of whole ones, and each row has
// its kind's colour and bars.
TEST(Area, LengthsAreOfWholeActions) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 40; ++i) {
    const Schedule schedule = pipesim::testing::random_schedule(random);
    const RecordedRun run =
        pipesim::testing::recorded(schedule, pipesim::testing::random_costs(random, schedule));
    const Document document = document_of(RecordedRun(run));
    const Scene scene = build_scene(document, {});
    const std::int64_t end = scene.extent.to_ns;
    View view;
    const std::int64_t from = pipesim::testing::pick(random, 0, end - 2);
    view.area = TimeRange{from, pipesim::testing::pick(random, from + 1, end)};
    const std::int64_t zero = run.iterations.front().start_ns;
    std::map<Kind, std::vector<std::int64_t>> lengths;
    for (const Span& span : run.spans) {
      const bool inside =
          span.start_ns - zero < view.area->to_ns && span.end_ns - zero > view.area->from_ns;
      if (inside && !is_communication(span.action)) {
        lengths[span.action.kind].push_back(span.end_ns - span.start_ns);
      }
    }
    const Table table = area_table(document, scene, view);
    const Histogram histogram = area_histogram(document, scene, view);
    std::int64_t count = 0;
    for (const auto& [kind, all] : lengths) {
      const Table::Row& row = row_of(table, std::string(kind_name(kind)));
      const auto own = [&](const char* name) { return row.values[column_of(table, name)]; };
      EXPECT_EQ(own("count"), std::ssize(all));
      EXPECT_EQ(own("least"), std::ranges::min(all));
      EXPECT_EQ(own("greatest"), std::ranges::max(all));
      EXPECT_EQ(own("mean"),
                std::accumulate(all.begin(), all.end(), std::int64_t{0}) / std::ssize(all));
      EXPECT_EQ(row.shade, shade_of(kind));
      EXPECT_EQ(std::ssize(row.about), std::ssize(all));
      count += std::ssize(all);
    }
    EXPECT_EQ(histogram.count(), count);
  }
}

// Halves of an area sum to the whole, whatever is cut.
TEST(Area, PartsSumToTheWhole) {
  const Document document = perturbed_document("zb-h1");
  SceneOptions options;
  options.transfers = true;
  options.colouring = Colouring::microbatch;
  const Scene scene = build_scene(document, options);
  std::mt19937_64 random(4);
  const auto times = [&](TimeRange range) {
    View view;
    view.area = range;
    const Table table = area_table(document, scene, view);
    std::map<std::string, std::int64_t> sums;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (cell(table, i, "run") == "measured")
        sums[table.rows[i].cells[0]] += value(table, i, "sum");
    }
    return sums;
  };
  for (int i = 0; i < 30; ++i) {
    const std::int64_t from = pipesim::testing::pick(random, 0, 40'000'000);
    const std::int64_t to = from + pipesim::testing::pick(random, 2, 40'000'000);
    const std::int64_t middle = from + (to - from) / 3;
    auto sums = times({from, middle});
    for (const auto& [what, ns] : times({middle, to})) sums[what] += ns;
    const auto whole = times({from, to});
    for (const auto& [what, ns] : whole) EXPECT_EQ(ns, sums[what]) << what;
  }
}

TEST(Area, OfRanksThatTheFilterLetsThrough) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  View view;
  view.area = TimeRange{0, 100'000'000};
  view.filter = "rank 2";
  const Table table = area_table(document, scene, view);
  EXPECT_EQ(sum_of(table, "F", "predicted", "count"), 8);
  view.filter = "no such";
  EXPECT_TRUE(area_table(document, scene, view).rows.empty());
  EXPECT_FALSE(area_table(document, scene, View{}).note.empty());
}

TEST(Area, OfSlicesByName) {
  Document document;
  document.traces = {testing::open_trace(testing::events())};
  const Scene scene = build_scene(document, {});
  View view;
  view.area = TimeRange{1'000, 7'000};  // 1500 to 7500 of the trace
  const Table table = area_table(document, scene, view);
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(row_of(table, "step").values[2], 6'000);
  EXPECT_EQ(row_of(table, "layer 1").values[2], 1'500);
  EXPECT_EQ(row_of(table, "layer 2").values[2], 3'500);
  EXPECT_EQ(row_of(table, "kernel").values[2], 1'500);
}

}  // namespace
}  // namespace pipesim::gui
