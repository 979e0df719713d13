// Search: what people type finds what they mean.
#include "gui/tables/search.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/documents.h"
#include "tests/events.h"

namespace pipesim::gui {
namespace {

using testing::document_of;

class SearchIn : public ::testing::Test {
 protected:
  SearchIn() {
    auto [predicted, measured] = testing::perturbed("interleaved");
    document_ = document_of(std::move(predicted), std::move(measured));
    document_.traces.push_back(testing::open_trace(testing::events()));
    scene_ = build_scene(document_, {});
  }

  Found find(const std::string& text, std::size_t most = 10'000) {
    return search(document_, scene_, text, most);
  }
  const Span& span_of(const Pick& pick) {
    return document_.traces[static_cast<std::size_t>(pick.trace)]->run->spans[pick.ref];
  }
  // All that are so, of both runs and all iterations, in the order of time.
  void expect(const std::string& text, const std::function<bool(const Span&)>& is) {
    std::vector<Pick> expected;
    for (int trace = 0; trace < 2; ++trace) {
      const auto& spans = document_.traces[static_cast<std::size_t>(trace)]->run->spans;
      for (std::size_t i = 0; i < spans.size(); ++i) {
        if (is(spans[i])) expected.push_back({trace, static_cast<Ref>(i), false});
      }
    }
    ASSERT_FALSE(expected.empty());
    const Found found = find(text);
    EXPECT_EQ(found.picks, expected) << text << ": " << found.text;
    EXPECT_EQ(found.all, expected.size());
  }

  Document document_;
  Scene scene_;
};

TEST_F(SearchIn, AnActionInAllIterations) {
  const auto is = [](const Span& span) { return to_text(span.action) == "2F0"; };
  for (const char* text : {"2F0", "2f0", " 2F0 ", "stage 2 F mb 0", "f0 stage2", "F mb0 STAGE 2"}) {
    expect(text, is);
  }
  EXPECT_EQ(find("2F0").text, "4 actions: stage 2, F, microbatch 0");
}

TEST_F(SearchIn, KindsStagesMicrobatchesRanks) {
  expect("2F", [](const Span& s) { return s.action.stage == 2 && s.action.kind == Kind::F; });
  expect("F0", [](const Span& s) { return s.action.microbatch == 0 && s.action.kind == Kind::F; });
  expect("B", [](const Span& s) { return s.action.kind == Kind::B; });
  expect("send_f", [](const Span& s) { return s.action.kind == Kind::SEND_F; });
  expect("1SEND_F3", [](const Span& s) { return to_text(s.action) == "1SEND_F3"; });
  const auto works = [](const Span& s) { return !is_transfer(s.action.kind); };
  expect("mb 3", [&](const Span& s) { return works(s) && s.action.microbatch == 3; });
  expect("microbatch 3", [&](const Span& s) { return works(s) && s.action.microbatch == 3; });
  expect("stage 2", [&](const Span& s) { return works(s) && s.action.stage == 2; });
  expect("rank 1", [&](const Span& s) { return works(s) && s.rank == 1; });
  expect("rank 1 B", [&](const Span& s) { return s.action.kind == Kind::B && s.rank == 1; });
  EXPECT_EQ(find("2B").text, "32 actions: stage 2, B, microbatches 0 to 7");
}

TEST_F(SearchIn, TheLatestFirst) {
  const Found found = find("late");
  const Pair& pair = *document_.pair;
  ASSERT_GT(found.picks.size(), 10U);
  std::int64_t before = pair.comparison.gap.total_ns() * 10;
  for (const Pick& pick : found.picks) {
    EXPECT_EQ(pick.trace, 1);
    const OperationId id = pair.find(measured_side, pick.ref);
    const auto& sides = pair.comparison.operations.sides;
    const std::int64_t late = sides[1][id].end_ns - sides[0][id].end_ns;
    EXPECT_GT(late, 0);
    EXPECT_LE(late, before);
    before = late;
  }
}

TEST_F(SearchIn, Bubbles) {
  const Found found = find("bubble");
  ASSERT_FALSE(found.picks.empty());
  std::set<std::pair<int, Ref>> seen;
  for (const Pick& pick : found.picks) {
    EXPECT_TRUE(pick.bubble);
    EXPECT_TRUE(seen.insert({pick.trace, pick.ref}).second) << "each once";
    EXPECT_TRUE(gui::find(scene_, document_, pick).has_value());
  }
  EXPECT_EQ(find("Bubbles").picks, found.picks);
}

TEST_F(SearchIn, NamesOfSlices) {
  EXPECT_EQ(find("LAYER").picks, (std::vector<Pick>{{2, 1, false}, {2, 2, false}}));
  EXPECT_EQ(find("kern").picks, (std::vector<Pick>{{2, 3, false}}));
  EXPECT_EQ(find("kern").text, "1 slice");
}

TEST_F(SearchIn, SaysWhyNothingIsFound) {
  for (const char* text : {"", "  ", "9F0", "2F99", "mb", "stage x", "F-1", "2F0 nonsense",
                           "99999999999F0", "rank 99", "\"", "-1"}) {
    const Found found = find(text);
    EXPECT_TRUE(found.picks.empty()) << text;
    EXPECT_EQ(found.all, 0U) << text;
    EXPECT_FALSE(found.text.empty()) << text;
  }
  EXPECT_NE(find("9F0").text.find("4 ranks, 8 stages and 8 microbatches"), std::string::npos);
  const Document nothing;
  EXPECT_FALSE(search(nothing, {}, "late").text.empty());
}

TEST_F(SearchIn, CountsWhatItLeavesOut) {
  const Found all = find("F");
  const Found some = find("F", 10);
  EXPECT_EQ(some.all, all.picks.size());
  EXPECT_EQ(some.picks, std::vector<Pick>(all.picks.begin(), all.picks.begin() + 10));
  EXPECT_NE(some.text.find("the first 10 are shown"), std::string::npos) << some.text;
}

}  // namespace
}  // namespace pipesim::gui
