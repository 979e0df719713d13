// Candidates and the time-memory front.
#include <gtest/gtest.h>

#include "sim/plan/candidates.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

Candidate point(int microbatches, double time, double memory, std::string left_out = {}) {
  Candidate c;
  c.microbatches = microbatches;
  c.time_ns = time;
  c.memory = memory;
  c.left_out = std::move(left_out);
  return c;
}

TEST(Front, HoldsWhatNothingBeats) {
  std::vector<Candidate> all{
      point(8, 10, 4),           // fast
      point(8, 12, 2),           // small
      point(8, 12, 3),           // as slow as the last, larger
      point(8, 11, 5),           // slower and larger than the first
      point(8, 10, 4),           // a tie with the first
      point(8, 1, 1, "broken"),  // not simulated: beats nobody
      point(16, 20, 9),          // alone with its number of microbatches
  };
  mark_front(all);
  std::vector<bool> got;
  for (const Candidate& c : all) got.push_back(c.on_front);
  EXPECT_EQ(got, (std::vector<bool>{true, true, false, false, true, false, true}));
}

TEST(Candidates, CompareCutsOfTheSameModel) {
  Trial trial;
  trial.costs = [](const Schedule& schedule) {
    StageCosts stage;
    stage.forward_ns = 10;
    stage.split_backward(20);
    stage.activation_bytes = 100;
    Costs costs;
    costs.stages.assign(static_cast<std::size_t>(schedule.stages()), stage);
    return costs;
  };
  int tried = 0;
  trial.progress = [&](const std::string&) { ++tried; };
  const auto all = try_all({"", 4, 1, {}, {}, {}}, {8, 9}, trial);
  EXPECT_EQ(tried, static_cast<int>(all.size()));
  EXPECT_EQ(all.size(), 2 * all_families().size());
  for (const Candidate& c : all) {
    if (c.schedule == "interleaved" && c.microbatches == 8) {
      EXPECT_EQ(c.time_ns, 57 * 10 / 2.0);
      EXPECT_EQ(c.memory, 1100 / 2.0);
    }
    if (c.schedule == "1f1b" && c.microbatches == 8) {
      EXPECT_EQ(c.time_ns, 330);
      EXPECT_EQ(c.memory, 400);
    }
    const bool uneven = c.schedule == "interleaved-pytorch" || c.schedule == "interleaved-zb" ||
                        c.schedule == "dualpipe";
    EXPECT_EQ(!c.left_out.empty(), uneven && c.microbatches == 9) << c.schedule;
  }
}

}  // namespace
}  // namespace pipesim
