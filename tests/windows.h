// A window as a user has it before them, with traces written for it.
#pragma once

#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTest>
#include <memory>
#include <string>

#include "gui/tables/tables.h"
#include "gui/window/letters.h"
#include "gui/window/main_window.h"
#include "gui/window/timeline.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/family.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"
#include "traces/run_metadata.h"

namespace pipesim::gui::testing {

inline constexpr int patience_ms = 30'000;

// A prediction of 1F1B, and the same with a slow stage 2 as if it had been measured.
class TraceFiles {
 public:
  explicit TraceFiles(int stages = 4) {
    write(plan(), 2'000'000, "predicted", stages);
    write(run(), 2'600'000, "measured", stages);
  }
  std::string plan() const { return folder_ / "plan.json"; }
  std::string run() const { return folder_ / "run.json"; }
  QStringList both() const {
    return {QString::fromStdString(plan()), QString::fromStdString(run())};
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  static void write(const std::string& path, std::int64_t backward_ns, const std::string& source,
                    int stages = 4, int microbatches = 8) {
    const Schedule schedule = generate(ScheduleRequest{"1f1b", stages, microbatches, {}, {}, {}});
    Costs costs =
        pipesim::testing::costs_of(schedule.placement.stages(), 1'000'000, 2'000'000, 50'000);
    costs.stages[2].backward_input_ns = backward_ns / 2;
    costs.stages[2].backward_weight_ns = backward_ns - backward_ns / 2;
    for (StageCosts& stage : costs.stages) stage.activation_bytes = 1 << 30;
    const RecordedRun run = record_run(schedule, costs);
    std::string metadata = metadata_json(run);
    const std::string from = "\"predicted\"";
    metadata.replace(metadata.find(from), from.size(), '"' + source + '"');
    OutputFile file(path);
    ChromeTraceWriter writer(run, metadata, file);
    writer.add(run.spans);
    writer.finish();
    file.commit();
  }

 private:
  pipesim::testing::TemporaryFolder folder_;
};

inline std::unique_ptr<MainWindow> shown_window(const QStringList& traces = {},
                                                WindowOptions options = {},
                                                QSize size = {1024, 700}) {
  if (!options.theme) options.theme = Theme::light;
  auto window = std::make_unique<MainWindow>(options);
  window->resize(size);
  window->show();
  EXPECT_TRUE(QTest::qWaitForWindowActive(window.get(), patience_ms));
  if (!traces.isEmpty()) {
    QSignalSpy idle(window.get(), &MainWindow::idle);
    window->open(traces);
    EXPECT_TRUE(idle.wait(patience_ms));
  }
  window->settle();
  return window;
}

// Once what goes on in the background has ended.
inline void wait_until_idle(MainWindow& window) {
  if (window.is_loading()) {
    QSignalSpy idle(&window, &MainWindow::idle);
    EXPECT_TRUE(idle.wait(patience_ms));
  }
  window.settle();
}

// That action of the trace in that place among the document's.
inline Pick pick_of(const Document& document, int trace, const std::string& action) {
  const RecordedRun& run = *document.traces[static_cast<std::size_t>(trace)]->run;
  for (std::size_t i = 0; i < run.spans.size(); ++i) {
    if (to_text(run.spans[i].action) == action) return {trace, static_cast<Ref>(i), false};
  }
  ADD_FAILURE() << "no " << action;
  return {};
}

// The middle of a bar as it is on the screen, in the timeline's own pixels.
inline QPoint middle_of(MainWindow& window, const Pick& pick) {
  const Session& session = window.session();
  const auto place = find(session.scene(), session.document(), pick);
  EXPECT_TRUE(place.has_value());
  if (!place) return {};
  const Picture& picture = session.picture();
  for (const PlacedRow& row : picture.rows) {
    if (row.group != place->group || row.lane != place->lane || row.row != place->row) continue;
    const std::int64_t middle = place->range.from_ns + place->range.length_ns() / 2;
    const double scale = session.canvas().scale;
    return {static_cast<int>(picture.viewport.x_of(middle) / scale),
            static_cast<int>((row.y + row.height / 2) / scale)};
  }
  ADD_FAILURE() << "its row is not in sight";
  return {};
}

}  // namespace pipesim::gui::testing
