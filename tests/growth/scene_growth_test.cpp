// What the viewer makes of a trace: rows, curves, arrows, tables and pictures.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gui/layout/layout.h"
#include "gui/layout/palette.h"
#include "gui/scene/document.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"
#include "gui/tables/search.h"
#include "gui/tables/tables.h"
#include "tests/files.h"
#include "tests/growth/expect_linear.h"
#include "tests/growth/growing_traces.h"
#include "traces/base/files.h"

namespace pipesim::gui {
namespace {

using pipesim::testing::expect_linear;
using pipesim::testing::Growing;
using pipesim::testing::Outcome;

constexpr double most_bytes = 128;

void draw(const Document& document, const Scene& scene, const View& view) {
  constexpr Canvas canvas{1024, 700, 1, 7, 14};
  const Palette colours = palette(Theme::light, view.options.colouring);
  const Picture picture = layout(document, scene, view, canvas, colours);
  hit(picture, scene, 500, 300);
  layout_overview(document, scene, view, {1024, 60, 1, 7, 14}, colours);
}

void look_at(const Document& document) {
  for (const Alignment alignment : {Alignment::absolute, Alignment::iteration, Alignment::slot}) {
    for (const Show show : {Show::stacked, Show::overlay, Show::difference}) {
      View view;
      view.options = {.alignment = alignment,
                      .show = show,
                      .colouring = Colouring::kind,
                      .transfers = true,
                      .critical = true};
      const Scene scene = build_scene(document, view.options);
      view.range = scene.home;
      draw(document, scene, view);
      view.range = scene.extent;
      view.scroll = 1000;
      draw(document, scene, view);
    }
  }
}

void list(const Document& document) {
  View view;
  const Scene scene = build_scene(document, view.options);
  for (const auto& table : {cause_table, stage_kind_table, gap_table, bubble_table, trace_table}) {
    to_csv(table(document));
  }
  to_csv(operation_table(document));
  to_csv(name_table(document));
  verdict(document);
  for (const std::string text : {"2F0", "bubble", "late", "rank 1", "a"}) {
    const Found found = search(document, scene, text);
    if (!found.picks.empty()) to_csv(detail_table(document, scene, found.picks.front()));
  }
  view.area = scene.extent;
  to_csv(area_table(document, scene, view));
}

void expect_linear_showing(const std::vector<Growing>& inputs) {
  const pipesim::testing::TemporaryFolder folder;
  const std::string path = folder / "t.json";
  for (const Growing& input : inputs) {
    expect_linear(input, most_bytes, Outcome::read, [&](const std::string& text) {
      write_file(path, text);
      const Document document = open_traces({path});
      look_at(document);
      list(document);
    });
  }
}

TEST(SceneGrowth, OfRuns) { expect_linear_showing(pipesim::testing::growing_runs()); }

TEST(SceneGrowth, OfPairs) {
  const pipesim::testing::TemporaryFolder folder;
  const std::string path = folder / "t.json";
  const std::string other = folder / "u.json";
  for (const Growing& input : pipesim::testing::growing_runs()) {
    expect_linear(input, 2 * most_bytes, Outcome::read, [&](const std::string& text) {
      write_file(path, text);
      write_file(other, text);
      const Document document = open_traces({path, other});
      ASSERT_NE(document.pair, nullptr);
      look_at(document);
      list(document);
    });
  }
}

TEST(SceneGrowth, OfProfiles) { expect_linear_showing(pipesim::testing::growing_profiles()); }

TEST(SceneGrowth, OfEvents) { expect_linear_showing(pipesim::testing::growing_events()); }

}  // namespace
}  // namespace pipesim::gui
