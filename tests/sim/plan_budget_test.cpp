// Plans whose time ends: after any number of looks at the clock there is a valid answer, or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "sim/plan/answer.h"
#include "sim/plan/bounds.h"
#include "sim/plan/nearest.h"
#include "tests/errors.h"
#include "tests/thorough.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

PlanSpace small_space(PlanQuestion question) {
  PlanSpace space(std::move(question));
  space.narrow("schedule=1f1b,interleaved,zb-h1,zb-v");
  space.narrow("virtual-stages=1,2");
  space.narrow("recompute=none,selective");
  space.narrow("zero=0,1");
  return space;
}

PlanQuestion small_question() {
  PlanQuestion question;
  question.devices = 8;
  question.global_batch = 33;  // next to 32
  question.training.model = find_model("gpt2-small");
  question.training.cluster = find_cluster("dgx-a100");
  question.training.training.sequence_length = 256;
  question.training.training.attention = Attention::fused;
  return question;
}

// All that `pipesim plan` asks, one after the other.
struct AskedPlan {
  PlanResult found;
  std::optional<PlanAnswer> answer;
  std::optional<NearbyBatch> nearby;
  std::optional<PlanCertificate> certificate;
  NearestPossible possible;
  NearestFitting fitting;
};

AskedPlan ask_all(const PlanSpace& space, const PlanPoint& point, const PlanLimits& limits) {
  PlanSearch how;
  how.memory_cap_bytes = std::int64_t{3} << 30;
  how.top = 4;
  const SpaceOf space_of = [](const PlanQuestion& other) {
    return std::optional(small_space(other));
  };
  AskedPlan asked;
  asked.certificate = PointCertifier(space, limits).certify(point);
  LayoutPlanner planner(space, limits);
  asked.found = planner.best(how);
  if (!asked.found.best.empty()) {
    asked.answer = answer_plan(planner, space, asked.found, how, limits);
    asked.nearby =
        nearby_batch(space.question(), asked.answer->top.front().outcome, how, space_of, limits);
  }
  asked.possible = nearest_possible(space.question(), space_of, limits);
  asked.fitting = nearest_fitting(space.question(), how.memory_cap_bytes, space_of, limits);
  return asked;
}

TEST(PlanBudget, IsObeyedAfterAnyNumberOfLooks) {
  const PlanSpace space = small_space(small_question());
  std::int64_t possible = 0;
  while (space.broken_rule(space.axes().at(possible))) ++possible;
  const PlanPoint point = space.axes().at(possible);
  const AskedPlan whole = ask_all(space, point, {});
  ASSERT_TRUE(whole.answer && whole.answer->is_whole && whole.certificate->outcome);
  PointCertifier certifier(space);
  bool is_over = true;
  int with_answer = 0;
  int partial = 0;
  for (std::int64_t looks = 0; is_over; looks += testing::is_thorough() ? 1 : 1 + looks / 4) {
    SCOPED_TRACE(looks);
    std::atomic<std::int64_t> looked = 0;
    const Budget budget([&] { return looked++ >= looks; });
    const AskedPlan asked = ask_all(space, point, {.budget = &budget});
    is_over = budget.is_over();
    EXPECT_EQ(asked.found.counts.sum(), space.axes().size());
    if (asked.certificate->outcome) {
      EXPECT_EQ(asked.certificate->outcome->time_ns, whole.certificate->outcome->time_ns);
    }
    if (asked.found.best.empty()) {
      EXPECT_GT(asked.found.counts.not_reached, 0);
      continue;
    }
    ++with_answer;
    for (const PlanOutcome& one : asked.found.best) {
      const PlanCertificate own = certifier.certify(space.axes().at(one.index));
      EXPECT_EQ(one.time_ns, own.outcome->time_ns);
      EXPECT_EQ(one.memory_bytes, own.outcome->memory_bytes);
    }
    EXPECT_GE(asked.found.best.front().time_ns, whole.found.best.front().time_ns);
    ASSERT_EQ(asked.answer->top.size(), asked.found.best.size());
    for (const Finalist& one : asked.answer->top) EXPECT_LE(one.outcome.time_ns, one.even_ns);
    EXPECT_LE(asked.answer->front.size(), whole.answer->front.size());
    for (std::size_t i = 0; i < asked.answer->front.size(); ++i) {
      EXPECT_EQ(asked.answer->front[i].time_ns, whole.answer->front[i].time_ns);
    }
    if (!asked.answer->is_whole) ++partial;
    if (HasFailure()) return;
  }
  EXPECT_GT(with_answer, 0);
  EXPECT_GT(partial, 0);
}

// With half of its time over, the search evaluates what it has found, of a sample of all.
TEST(PlanBudget, HasAnAnswerThoughThereWasNoTimeToLookAtAll) {
  PlanQuestion question = small_question();
  question.devices = 64;
  question.global_batch = 5040;
  const PlanSpace space{question};
  PlanSearch how;
  how.memory_cap_bytes = std::int64_t{1} << 40;
  const Budget budget([] { return false; }, [] { return true; });
  const PlanResult found = LayoutPlanner(space, {.budget = &budget}).best(how);
  ASSERT_FALSE(found.best.empty());
  EXPECT_GT(found.counts.not_reached, 0);
  EXPECT_EQ(found.counts.sum(), space.axes().size());
  const PlanResult whole = LayoutPlanner(space, {}).best(how);
  EXPECT_GE(found.best.front().time_ns, whole.best.front().time_ns);
}

TEST(PlanBudget, LeavesOutSchedulesOfTooManyActions) {
  PlanQuestion question = small_question();
  question.global_batch = 720'720;
  const PlanSpace space = small_space(question);
  PlanSearch how;
  how.memory_cap_bytes = std::int64_t{1} << 50;
  const PlanResult found = LayoutPlanner(space, {.max_actions = 0}).best(how);
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(found.counts.all_impossible() + found.counts.not_reached + found.counts.dominated,
            space.axes().size());
}

// What does all forwards first is known for any number of microbatches without its schedule.
TEST(PlanBudget, KnowsWhatHoldsAllWithoutItsSchedule) {
  for (const char* name : {"gpipe", "bfs"}) {
    ScheduleProfiles profiles;
    const Family& own = family(name);
    for (const int microbatches : {3, 8, 9, 100, 100'000'000}) {
      const ScheduleProfile& profile =
          profiles.of(own, {.name = name, .ranks = 2, .microbatches = microbatches});
      EXPECT_EQ(profile.shape.microbatches, microbatches);
      for (const std::vector<HeldInstant>& rank : profile.ranks) {
        for (const HeldInstant& instant : rank) {
          for (const int held : instant.chunks) EXPECT_EQ(held, microbatches);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
