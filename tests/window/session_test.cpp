// What a session does beside the window's thread.
#include "gui/window/session.h"

#include <gtest/gtest.h>

#include "gui/window/letters.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/family.h"
#include "tests/documents.h"

namespace pipesim::gui {
namespace {

// Of so many spans that their critical path is not found at once.
RecordedRun large_run() {
  return record_run(generate(ScheduleRequest{"1f1b", 16, 2'000, {}, {}, {}}),
                    pipesim::testing::costs_of(16, 1'000'000, 2'000'000, 50'000));
}

class LargeSession : public ::testing::Test {
 protected:
  LargeSession() {
    session.set_canvas(canvas_of(800, 600, 1));
    session.open(opened(testing::document_of(large_run()), {}));
  }
  std::size_t bars_on_the_path() const {
    std::size_t bars = 0;
    for (const Group& group : session.scene().groups) {
      for (const Lane& lane : group.lanes) bars += lane.critical.size();
    }
    return bars;
  }

  Session session;
};

TEST_F(LargeSession, FindsItsCriticalPathInTheBackground) {
  session.run(Command::toggle_critical);
  EXPECT_TRUE(session.finds_path());
  EXPECT_TRUE(session.view().options.critical);
  EXPECT_EQ(bars_on_the_path(), 0U);
  session.wait_for_path();
  EXPECT_FALSE(session.finds_path());
  EXPECT_TRUE(session.scene().options.critical);

  SceneOptions options;
  options.critical = true;
  const Scene at_once = build_scene(session.document(), options);
  ASSERT_EQ(session.scene().groups.size(), at_once.groups.size());
  for (std::size_t group = 0; group < at_once.groups.size(); ++group) {
    const BarRow& found = session.scene().groups[group].lanes[0].critical;
    const BarRow& wanted = at_once.groups[group].lanes[0].critical;
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t bar = 0; bar < wanted.size(); ++bar) ASSERT_EQ(found[bar], wanted[bar]);
  }
}

TEST_F(LargeSession, KnowsThePathOnceItWasFound) {
  session.run(Command::toggle_critical);
  session.wait_for_path();
  const std::size_t bars = bars_on_the_path();
  EXPECT_GT(bars, 1'000U);
  session.run(Command::toggle_critical);
  EXPECT_EQ(bars_on_the_path(), 0U);
  session.run(Command::toggle_critical);
  EXPECT_FALSE(session.finds_path());
  EXPECT_EQ(bars_on_the_path(), bars);
}

TEST_F(LargeSession, ForgetsAPathThatIsNotAskedForAnyMore) {
  session.run(Command::toggle_critical);
  session.run(Command::toggle_critical);
  EXPECT_FALSE(session.finds_path());
  session.run(Command::toggle_critical);
  session.open(opened(testing::document_of(large_run()), {}));
  EXPECT_FALSE(session.finds_path());
}

// As it is looked at by then.
TEST_F(LargeSession, PutsThePathOnTheSceneAsItIsNow) {
  session.run(Command::toggle_critical);
  View next = session.view();
  next.options.alignment = Alignment::slot;
  session.change(std::move(next));
  EXPECT_TRUE(session.finds_path());
  session.wait_for_path();
  SceneOptions options = session.view().options;
  EXPECT_EQ(options.alignment, Alignment::slot);
  const Scene at_once = build_scene(session.document(), options);
  std::size_t wanted = 0;
  for (const Group& group : at_once.groups) wanted += group.lanes[0].critical.size();
  EXPECT_EQ(bars_on_the_path(), wanted);
}

}  // namespace
}  // namespace pipesim::gui
