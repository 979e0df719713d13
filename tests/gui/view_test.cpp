// The history of views against a list that keeps everything.
#include "gui/scene/view.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/random_schedule.h"

namespace pipesim::gui {
namespace {

using pipesim::testing::pick;

View view_at(std::int64_t from_ns) {
  View view;
  view.range = {from_ns, from_ns + 1000};
  return view;
}

TEST(History, GoesBackAndForth) {
  History history(view_at(0));
  EXPECT_FALSE(history.can_undo());
  history.push(view_at(1));
  history.push(view_at(2));
  EXPECT_EQ(history.undo(), view_at(1));
  EXPECT_EQ(history.undo(), view_at(0));
  EXPECT_FALSE(history.can_undo());
  EXPECT_EQ(history.undo(), view_at(0));  // nothing lies before
  EXPECT_EQ(history.redo(), view_at(1));
  EXPECT_EQ(history.redo(), view_at(2));
  EXPECT_FALSE(history.can_redo());
  EXPECT_EQ(history.redo(), view_at(2));
}

TEST(History, AChangeAfterUndoForgetsWhatWasUndone) {
  History history(view_at(0));
  history.push(view_at(1));
  history.undo();
  history.push(view_at(2));
  EXPECT_FALSE(history.can_redo());
  EXPECT_EQ(history.undo(), view_at(0));
}

TEST(History, AGestureIsOneStep) {
  History history(view_at(0));
  for (int i = 1; i <= 50; ++i) history.push(view_at(i), "drag 1");
  for (int i = 51; i <= 60; ++i) history.push(view_at(i), "drag 2");
  EXPECT_EQ(history.undo(), view_at(50));
  EXPECT_EQ(history.undo(), view_at(0));
  history.redo();
  history.push(view_at(70), "drag 1");  // undo ended the gesture
  EXPECT_EQ(history.undo(), view_at(50));
}

TEST(History, WithoutANameEveryPushIsAStep) {
  History history(view_at(0));
  history.push(view_at(1), "");
  history.push(view_at(2), "");
  EXPECT_EQ(history.undo(), view_at(1));
}

TEST(History, SelectingIsNoStepAndForgetsNothing) {
  History history(view_at(0));
  history.push(view_at(1));
  history.undo();
  View selected = view_at(0);
  selected.picked = Pick{0, 7};
  selected.area = TimeRange{1, 2};
  history.push(selected);
  EXPECT_FALSE(history.can_undo());
  EXPECT_EQ(history.now(), selected);
  EXPECT_EQ(history.redo(), view_at(1));
  EXPECT_EQ(history.undo(), selected);
}

// Against a list of all steps with a place in it.
TEST(History, RandomSequencesAreThoseOfAnUnboundedList) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 200; ++run) {
    History history(view_at(0));
    std::vector<View> all{view_at(0)};
    std::size_t now = 0;
    std::string last;
    const int steps = run < 190 ? 60 : 900;  // some beyond what is kept
    for (int i = 0; i < steps; ++i) {
      const auto what = pick(random, 0, run < 190 ? 5 : 12);
      if (what == 0) {
        if (history.can_undo()) --now;
        history.undo();
        last.clear();
      } else if (what == 1) {
        ASSERT_EQ(history.can_redo(), now + 1 < all.size());
        if (now + 1 < all.size()) ++now;
        history.redo();
        last.clear();
      } else if (what == 2) {
        View view = all[now];
        view.picked = Pick{0, static_cast<Ref>(i)};
        history.push(view, "pick");
        all[now] = view;
      } else {
        View view = all[now];
        view.range.from_ns -= 1 + i;
        const std::string gesture = what == 3 ? "pan" : what == 4 ? "zoom" : "";
        history.push(view, gesture);
        if (gesture.empty() || gesture != last) {
          all.resize(now + 1);
          all.push_back(view);
          ++now;
        } else {
          all[now] = view;
        }
        last = gesture;
      }
      ASSERT_EQ(history.now(), all[now]) << "run " << run << ", step " << i;
    }
    std::size_t back = 0;
    while (history.can_undo()) {
      ++back;
      ASSERT_EQ(history.undo(), all[now - back]);
    }
    // All steps, or the last 199.
    EXPECT_TRUE(back == now || (back < now && back < 200));
    if (all.size() <= 200) {
      EXPECT_EQ(back, now);
    }
  }
}

TEST(History, KeepsTheLastSteps) {
  History history(view_at(0));
  for (int i = 1; i <= 1000; ++i) history.push(view_at(i));
  int back = 0;
  for (; history.can_undo(); ++back) EXPECT_EQ(history.undo(), view_at(999 - back));
  EXPECT_EQ(back, 199);
}

}  // namespace
}  // namespace pipesim::gui
