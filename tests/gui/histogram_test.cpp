// Histograms: every action is in the one bin that its length belongs to.
#include "gui/tables/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "gui/scene/shading.h"
#include "gui/tables/tables.h"
#include "tests/events.h"
#include "tests/scenes.h"

namespace pipesim::gui {
namespace {

using namespace testing;

// One event a length, one after the other.
Document events_of_lengths(const std::vector<std::int64_t>& lengths) {
  EventTrace events;
  events.name = "lengths";
  events.texts = {"", "gemm"};
  events.tracks.emplace_back().name = "stream";
  std::int64_t now = 0;
  for (const std::int64_t length : lengths) {
    Slice slice;
    slice.start_ns = now;
    slice.end_ns = now += length;
    slice.name = 1;
    events.slices.push_back(slice);
  }
  Document document;
  document.traces.push_back(open_trace(std::move(events)));
  return document;
}

std::vector<std::int64_t> counts_of(const Histogram::Run& run) {
  std::vector<std::int64_t> counts;
  for (const Histogram::Bin& bin : run.bins) counts.push_back(bin.count());
  return counts;
}

TEST(Histogram, LengthsAreInTheirBins) {
  std::mt19937_64 random(2);
  for (const std::int64_t most : {1LL, 5LL, 90LL, 100'000LL, 4'000'000'000LL}) {
    std::vector<std::int64_t> lengths;
    for (int i = 0; i < 300; ++i) lengths.push_back(pipesim::testing::pick(random, 0, most));
    const Document document = events_of_lengths(lengths);
    const Histogram histogram = kind_histogram(document, {{0, 0, false}});
    ASSERT_EQ(histogram.runs.size(), 1U);
    const auto& edges = histogram.edges_ns;
    EXPECT_TRUE(std::ranges::is_sorted(edges));
    EXPECT_EQ(std::ranges::adjacent_find(edges), edges.end()) << "no bin is empty by its edges";
    EXPECT_LE(histogram.bins(), max_bins);
    EXPECT_EQ(histogram.count(), 300);
    EXPECT_EQ(edges.front(), std::ranges::min(lengths));
    EXPECT_EQ(edges.back(), std::ranges::max(lengths) + 1);
    std::vector<std::int64_t> expected(histogram.bins());
    for (const std::int64_t length : lengths) {
      for (std::size_t bin = 0; bin < histogram.bins(); ++bin) {
        expected[bin] += length >= edges[bin] && length < edges[bin + 1] ? 1 : 0;
      }
    }
    EXPECT_EQ(counts_of(histogram.runs[0]), expected);
    for (std::size_t bin = 0; bin < histogram.bins(); ++bin) {
      for (const Pick& one : histogram.runs[0].bins[bin].about) {
        EXPECT_GE(lengths[one.ref], edges[bin]);
        EXPECT_LT(lengths[one.ref], edges[bin + 1]);
      }
    }
  }
}

// Each bin as many times as long as the one before.
TEST(Histogram, IsLogarithmicFromAFactorOfAHundredOn) {
  EXPECT_FALSE(kind_histogram(events_of_lengths({1'000, 100'000}), {{0, 0, false}}).logarithmic);
  const Histogram wide = kind_histogram(events_of_lengths({1'000, 102'000}), {{0, 0, false}});
  EXPECT_TRUE(wide.logarithmic);
  const double first = static_cast<double>(wide.edges_ns[1]) / 1'000;
  const double last = static_cast<double>(wide.edges_ns.back()) /
                      static_cast<double>(wide.edges_ns[wide.bins() - 1]);
  EXPECT_NEAR(first, last, 0.01);
}

TEST(Histogram, OfTheSameStageAndKindInAllIterations) {
  const Document document = perturbed_document();
  const Ref picked =
      document.pair->span_of[measured_side]
                            [document.pair->comparison.operations.find(make_action(2, Kind::B, 3))];
  const Histogram histogram = kind_histogram(document, {{1, picked, false}});
  EXPECT_EQ(histogram.title, "Durations: B of stage 2");
  ASSERT_EQ(histogram.runs.size(), 1U);
  EXPECT_TRUE(histogram.runs[0].name.empty());
  EXPECT_EQ(histogram.count(), 8 * std::ssize(run_of(document, 1).iterations));
  std::int64_t coloured = 0;
  for (const Histogram::Bin& bin : histogram.runs[0].bins) {
    coloured += bin.counts[shade_of(Kind::B)];
    for (const Pick& one : bin.about) {
      const Action& action = run_of(document, one.trace).spans[one.ref].action;
      EXPECT_EQ(action.kind, Kind::B);
      EXPECT_EQ(action.stage, 2);
    }
  }
  EXPECT_EQ(coloured, histogram.count());
}

TEST(Histogram, RunsStandOverTheSameBins) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  View view;
  view.area = scene.home;
  const Histogram histogram = area_histogram(document, scene, view);
  ASSERT_EQ(histogram.runs.size(), 2U);
  EXPECT_EQ(histogram.runs[0].name, "predicted");
  EXPECT_EQ(histogram.runs[1].name, "measured");
  EXPECT_EQ(histogram.runs[0].bins.size(), histogram.runs[1].bins.size());
  // Of the prediction all forwards take as long as each other, and all backwards.
  EXPECT_EQ(std::ranges::count_if(counts_of(histogram.runs[0]), [](auto n) { return n > 0; }), 2);
}

TEST(Histogram, OfNothingIsEmpty) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  EXPECT_TRUE(area_histogram(document, scene, View{}).empty());
  EXPECT_TRUE(kind_histogram(document, {}).empty());
  EXPECT_TRUE(kind_histogram(document, {{0, 3, true}}).empty()) << "idle time has no kind";
  EXPECT_EQ(Histogram{}.bins(), 0U);
  EXPECT_EQ(Histogram{}.most(), 0);
}

// Adjacent blocks hold every row once, from top to bottom.
TEST(Folded, HasEveryRowOnce) {
  for (const std::size_t rows : {0U, 1U, 5U, 7U, 12U}) {
    Table table;
    table.columns = {{"label", false, {}}, {"value", true, "ns"}};
    for (std::size_t i = 0; i < rows; ++i) {
      table.rows.push_back({{std::to_string(i), "x"}, {0, static_cast<std::int64_t>(i)}, {}, {}});
    }
    for (const std::size_t blocks : {1U, 2U, 3U, 20U}) {
      const Table once = folded(table, blocks);
      const std::size_t used = once.columns.size() / 2;
      EXPECT_LE(used, std::max<std::size_t>(blocks, 1));
      std::size_t next = 0;
      for (std::size_t block = 0; block < used; ++block) {
        for (const Table::Row& row : once.rows) {
          ASSERT_EQ(row.cells.size(), once.columns.size());
          ASSERT_EQ(row.values.size(), once.columns.size());
          if (next < rows) {
            EXPECT_EQ(row.cells[2 * block], std::to_string(next));
            EXPECT_EQ(row.values[2 * block + 1], static_cast<std::int64_t>(next));
          } else {
            EXPECT_EQ(row.cells[2 * block], "");
          }
          ++next;
        }
      }
      EXPECT_GE(next, rows);
    }
  }
}

}  // namespace
}  // namespace pipesim::gui
