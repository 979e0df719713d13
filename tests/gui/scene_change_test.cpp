// Scenes that change: what is found in them, set apart, and looked at in another way.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "tests/events.h"
#include "tests/scenes.h"

namespace pipesim::gui {
namespace {

using namespace testing;

std::vector<SceneOptions> all_options() {
  std::vector<SceneOptions> all;
  for (const auto alignment : {Alignment::absolute, Alignment::iteration, Alignment::slot}) {
    for (const auto show : {Show::stacked, Show::overlay, Show::difference}) {
      for (const auto colouring : {Colouring::kind, Colouring::microbatch, Colouring::error}) {
        for (const bool transfers : {false, true}) {
          for (const bool critical : {false, true}) {
            all.push_back({alignment, show, colouring, transfers, critical});
          }
        }
      }
    }
  }
  return all;
}

void expect_same_row(const BarRow& one, const BarRow& other) {
  EXPECT_EQ(bars_of(one), bars_of(other));
  const std::int64_t end_ns = one.empty() ? 0 : one.end_ns(one.size() - 1);
  EXPECT_EQ(one.filled_before(end_ns), other.filled_before(end_ns));
}

void expect_same_scene(const Scene& one, const Scene& other) {
  EXPECT_EQ(one.options, other.options);
  EXPECT_EQ(one.extent, other.extent);
  EXPECT_EQ(one.home, other.home);
  EXPECT_EQ(one.emphasises, other.emphasises);
  EXPECT_EQ(one.arrows.longest_ns(), other.arrows.longest_ns());
  ASSERT_EQ(one.groups.size(), other.groups.size());
  for (std::size_t g = 0; g < one.groups.size(); ++g) {
    const Group& a = one.groups[g];
    const Group& b = other.groups[g];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.process, b.process);
    EXPECT_EQ(a.rank, b.rank);
    ASSERT_EQ(a.lanes.size(), b.lanes.size());
    for (std::size_t l = 0; l < a.lanes.size(); ++l) {
      EXPECT_EQ(a.lanes[l].kind, b.lanes[l].kind);
      EXPECT_EQ(a.lanes[l].trace, b.lanes[l].trace);
      EXPECT_EQ(a.lanes[l].label, b.lanes[l].label);
      EXPECT_EQ(a.lanes[l].offset_ns, b.lanes[l].offset_ns);
      ASSERT_EQ(a.lanes[l].rows.size(), b.lanes[l].rows.size());
      for (std::size_t r = 0; r < a.lanes[l].rows.size(); ++r) {
        expect_same_row(a.lanes[l].rows[r], b.lanes[l].rows[r]);
      }
      expect_same_row(a.lanes[l].critical, b.lanes[l].critical);
      expect_same_row(a.lanes[l].emphasis, b.lanes[l].emphasis);
    }
    ASSERT_EQ(a.curves.size(), b.curves.size());
    for (std::size_t c = 0; c < a.curves.size(); ++c) {
      EXPECT_EQ(a.curves[c].trace, b.curves[c].trace);
      EXPECT_EQ(a.curves[c].label, b.curves[c].label);
      EXPECT_EQ(a.curves[c].peak, b.curves[c].peak);
      EXPECT_EQ(a.curves[c].offset_ns, b.curves[c].offset_ns);
      ASSERT_EQ(a.curves[c].curve.size(), b.curves[c].curve.size());
      for (std::size_t i = 0; i < a.curves[c].curve.size(); ++i) {
        EXPECT_EQ(a.curves[c].curve[i], b.curves[c].curve[i]);
      }
    }
  }
  const auto parts = [](const Arrow& a) {
    return std::tuple(a.from_ns, a.to_ns, a.from_group, a.to_group, a.trace, a.ref, a.to_ref);
  };
  ASSERT_EQ(one.arrows.size(), other.arrows.size());
  for (std::size_t i = 0; i < one.arrows.size(); ++i) {
    EXPECT_EQ(parts(one.arrows[i]), parts(other.arrows[i]));
  }
}

// A pair of runs in which forwards and backwards share cells.
Document document_with_cells() {
  std::mt19937_64 random(11);
  for (;;) {
    const Schedule schedule = pipesim::testing::random_schedule(random);
    const auto run = [&](const std::string& name) {
      return pipesim::testing::recorded(schedule, pipesim::testing::random_costs(random, schedule),
                                        name);
    };
    RecordedRun predicted = run("predicted");
    if (std::ranges::none_of(predicted.spans, [](const Span& s) { return s.action.joined; })) {
      continue;
    }
    return document_of(std::move(predicted), run("measured"));
  }
}

TEST(SceneChange, ChangingIsBuilding) {
  Document pair = perturbed_document();
  pair.traces.push_back(testing::open_trace(testing::events()));
  const Document alone = document_of(testing::perturbed().measured);
  const Document cells = document_with_cells();
  Document events;
  events.traces.push_back(testing::open_trace(testing::events()));
  const auto options = all_options();
  for (const Document* document : std::vector<const Document*>{&pair, &alone, &cells, &events}) {
    std::mt19937_64 random(3);
    Scene scene = build_scene(*document, options.front());
    for (int i = 0; i < 150; ++i) {
      const auto& next = options[random() % options.size()];
      if (i % 5 == 0) emphasise(scene, *document, {{0, 3, false}});
      change_scene(scene, *document, next);
      expect_same_scene(scene, build_scene(*document, next));
      if (HasFailure()) FAIL() << "change " << i;
    }
  }
}

TEST(SceneChange, EventsKeepTheirRows) {
  Document events;
  events.traces.push_back(testing::open_trace(testing::events()));
  Scene scene = build_scene(events, {});
  const Lane* const lanes = scene.groups.front().lanes.data();
  for (const SceneOptions& options : all_options()) {
    change_scene(scene, events, options);
    EXPECT_EQ(scene.groups.front().lanes.data(), lanes);
    EXPECT_EQ(scene.options, options);
  }
}

TEST(SceneChange, FindsWhatItHas) {
  const Document document = perturbed_document();
  for (const SceneOptions& options : all_options()) {
    const Scene scene = build_scene(document, options);
    int found = 0;
    for (std::size_t g = 0; g < scene.groups.size(); ++g) {
      for (std::size_t l = 0; l < scene.groups[g].lanes.size(); ++l) {
        const Lane& lane = scene.groups[g].lanes[l];
        for (std::size_t r = 0; r < lane.rows.size(); ++r) {
          for (std::size_t i = 0; i < lane.rows[r].size(); ++i) {
            const Bar bar = lane.rows[r][i];
            if (bar.ref == no_ref) continue;
            const auto place = find(scene, document, {lane.trace, bar.ref, is_bubble(bar.shade)});
            ASSERT_TRUE(place.has_value());
            ++found;
            EXPECT_EQ(place->group, static_cast<int>(g));
            EXPECT_EQ(place->lane, static_cast<int>(l));
            EXPECT_EQ(place->row, static_cast<int>(r));
            EXPECT_LE(place->range.from_ns, bar.start_ns + lane.offset_ns);
            EXPECT_GE(place->range.to_ns, bar.end_ns + lane.offset_ns);
            if (!is_bubble(bar.shade)) {
              EXPECT_EQ(place->bar, i);
            }
          }
        }
      }
    }
    EXPECT_GT(found, 60);
  }
  const Scene scene = build_scene(document, {});
  const RecordedRun& run = run_of(document, 0);
  for (Ref ref = 0; ref < run.spans.size(); ++ref) {
    EXPECT_EQ(find(scene, document, {0, ref, false}).has_value(),
              !is_transfer(run.spans[ref].action.kind));
  }
  EXPECT_FALSE(find(scene, document, {}).has_value());
}

TEST(SceneChange, EmphasisSetsApartWhatIsTold) {
  const Document document = perturbed_document();
  Scene scene = build_scene(document, {});
  const auto& cause = document.pair->comparison.root_causes.front();
  std::vector<Pick> picks;
  for (const OperationId id : cause.operations) {
    picks.push_back({1, document.pair->span_of[measured_side][id], false});
  }
  picks.push_back(picks.front());
  ASSERT_EQ(picks.size(), 9U) << "a stage's forwards";
  emphasise(scene, document, picks);
  EXPECT_TRUE(scene.emphasises);
  std::size_t bars = 0;
  for (const Group& group : scene.groups) {
    for (const Lane& lane : group.lanes) bars += lane.emphasis.size();
  }
  EXPECT_EQ(bars, 8U);
  for (const Bar& bar : bars_of(lane_of(scene, 2, 1)->emphasis)) {
    EXPECT_EQ(run_of(document, 1).spans[bar.ref].action.kind, Kind::F);
  }
  emphasise(scene, document, {});
  expect_same_scene(scene, build_scene(document, {}));
}

}  // namespace
}  // namespace pipesim::gui
