// Searches for the best layout: bounds, certificates, and all against trying everything.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/plan/search.h"
#include "sim/request/request.h"
#include "tests/errors.h"
#include "tests/thorough.h"

namespace pipesim {
namespace {

template <typename Value>
Value one_of(std::mt19937_64& random, const std::vector<Value>& values) {
  return values[random() % values.size()];
}

// Experts in all blocks or in some, with latent attention or without, predictions or none.
void give_experts(Model& model, std::mt19937_64& random) {
  model.shape_as(Architecture::llama);
  model.experts = one_of<std::int64_t>(random, {4, 8, 12});
  model.experts_per_token = one_of<std::int64_t>(random, {1, 2, 3});
  model.expert_size = one_of<std::int64_t>(random, {512, 2048, 4096});
  model.shared_size = one_of<std::int64_t>(random, {0, 768});
  model.prediction_depths = one_of<std::int64_t>(random, {0, 0, 1});
  model.kinds = {BlockKind{.has_experts = true}};
  if (random() % 2 == 0) model.kinds.insert(model.kinds.begin(), BlockKind{});
  if (random() % 2 == 0) model.latent = LatentAttention{256, 128, 64, 32, 64};
}

PlanQuestion random_question(std::mt19937_64& random) {
  PlanQuestion question;
  question.devices = one_of<int>(random, {4, 8, 12, 16, 24, 32});
  question.global_batch = one_of<std::int64_t>(random, {8, 12, 16, 24, 32, 48});
  TrainingRequest& training = question.training;
  training.model = find_model(one_of<std::string>(random, {"gpt2-small", "gpt2-xl", "llama-2-7b"}));
  training.model.blocks = one_of<std::int64_t>(random, {2, 3, 4, 6, 8, 12});
  training.cluster =
      find_cluster(one_of<std::string>(random, {"dgx-a100", "dgx-h100", "a100-ethernet"}));
  if (random() % 2 == 0) give_experts(training.model, random);
  const bool is_rotary = training.model.positions == Positions::rotary;
  training.training.sequence_length =
      one_of<std::int64_t>(random, {256, 1024, is_rotary ? 32768 : 512});
  training.training.context_exchange =
      usual_context_exchange(training.model, training.training.sequence_length);
  training.training.dispatch =
      one_of(random, std::vector{Dispatch::all_to_all, Dispatch::deduplicated});
  training.training.attention = Attention::fused;
  training.training.gradient_bytes = one_of<std::int64_t>(random, {2, 4});
  return question;
}

// Drops values of every axis until at most so many points are left.
void drop_values(PlanSpace& space, std::mt19937_64& random, std::int64_t most) {
  const std::vector<std::string> narrowings{"micro-batch-size=1",
                                            "sequence-parallel=off",
                                            "overlap-gather=off",
                                            "recompute=none,full",
                                            "bucket-bytes=off",
                                            "shard-over=all",
                                            "zero=0,1",
                                            "virtual-stages=1,2",
                                            "recompute=none",
                                            "schedule=1f1b,interleaved",
                                            "zero=1",
                                            "virtual-stages=2",
                                            "stages=2",
                                            "expert-parallel=1,2,4",
                                            "context-parallel=2",
                                            "expert-parallel=4",
                                            "tensor-parallel=1"};
  std::vector<std::string> order = narrowings;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::string& one : order) {
    if (space.axes().size() <= most) return;
    try {
      space.narrow(one);
    } catch (const Error&) {
      continue;  // has none of them any more
    }
  }
}

const std::int64_t unlimited = std::int64_t{1} << 50;

using testing::cases;

// ---- The space

TEST(PlanSpace, CountsEveryCombinationOnce) {
  std::mt19937_64 random(30);
  PlanSpace space(random_question(random));
  drop_values(space, random, 20'000);
  const PlanAxes& axes = space.axes();
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < axes.size(); ++i) {
    const PlanPoint point = axes.at(i);
    if (space.broken_rule(point)) continue;
    std::string flags;
    for (const std::string& flag : space.flags(point)) flags += flag + " ";
    EXPECT_TRUE(seen.insert(flags).second) << flags;
  }
  EXPECT_FALSE(seen.empty());
}

TEST(PlanSpace, KeepsWhatIsAskedFor) {
  std::mt19937_64 random(31);
  PlanSpace space(random_question(random));
  space.narrow("schedule=1F1B,zb-h1");
  space.narrow("recompute=none,norms+activation");
  space.narrow("bucket-bytes=off,25MB");
  EXPECT_EQ(space.axes().schedules.size(), 2);
  EXPECT_EQ(space.axes().recompute.size(), 2);
  const auto refusal = [&](const std::string& text) {
    return testing::input_error_of([&] { space.narrow(text); });
  };
  EXPECT_EQ(refusal("schedul=1f1b").substr(0, 48),
            "--only: unknown axis 'schedul'; known, nearest f");
  EXPECT_EQ(refusal("zero=7"), "--only zero: '7' is not in the search space; known: 0, 1, 2, 3");
  EXPECT_EQ(refusal("zero"), "--only zero: which values? give some, as in zero=0,1,2,3");
}

// As `pipesim` predicts it, if it does.
bool runs(const PlanSpace& space, const PlanPoint& point) {
  try {
    PredictionRequest request;
    request.schedule = choose_schedule(space.schedule(point));
    request.costs.costs = space.training(point);
    prepare(std::move(request)).predict();
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(PlanSpace, HoldsAllThatRuns) {
  std::mt19937_64 random(36);
  const int spaces = cases(20, 300);
  std::set<std::string_view> families;
  int running = 0;
  for (int i = 0; i < spaces; ++i) {
    const PlanSpace space(random_question(random));
    for (int draws = 0; draws < 300; ++draws) {
      const auto index =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(space.axes().size()));
      const PlanPoint point = space.axes().at(index);
      const int each = point.tensor_parallel * point.context_parallel * point.stages;
      if (space.question().devices % each != 0 ||
          space.question().global_batch %
                  (space.question().devices / each * point.micro_batch_size) !=
              0) {
        continue;
      }
      const bool is_possible = !space.broken_rule(point);
      EXPECT_EQ(is_possible, runs(space, point)) << index;
      if (HasFailure()) return;
      running += is_possible ? 1 : 0;
      if (is_possible) families.insert(point.schedule.family->name);
    }
  }
  EXPECT_GT(running, 100);
  EXPECT_GT(families.size(), 8);
}

// ---- The search

std::pair<std::int64_t, std::int64_t> by_aim(PlanAim aim, const PlanOutcome& one) {
  return aim == PlanAim::time ? std::pair(one.time_ns, one.memory_bytes)
                              : std::pair(one.memory_bytes, one.time_ns);
}

// All possible points that fit, by trying them, the best first.
std::vector<PlanOutcome> try_everything(const PlanSpace& space, PlanCounts& counts,
                                        const PlanSearch& how) {
  std::vector<PlanOutcome> all;
  const PlanAxes& axes = space.axes();
  PointCertifier certifier(space);
  for (std::int64_t i = 0; i < axes.size(); ++i) {
    const PlanPoint point = axes.at(i);
    const PlanCertificate certificate = certifier.certify(point);
    if (certificate.rule) {
      ++counts.impossible[static_cast<std::size_t>(*certificate.rule)];
      continue;
    }
    PlanOutcome outcome = *certificate.outcome;
    outcome.index = i;
    EXPECT_LE(certificate.least_time_ns, outcome.time_ns) << i;
    EXPECT_LE(certificate.least_memory_bytes, outcome.memory_bytes) << i;
    // Another schedule, whose order is the same, stands for it.
    if (space.repeats(point, point.schedule)) continue;
    if (outcome.memory_bytes <= how.memory_cap_bytes) all.push_back(outcome);
  }
  std::ranges::sort(all, [&](const PlanOutcome& a, const PlanOutcome& b) {
    return std::pair(by_aim(how.aim, a), a.index) < std::pair(by_aim(how.aim, b), b.index);
  });
  return all;
}

TEST(PlanSearch, FindsWhatTryingEverythingFinds) {
  std::mt19937_64 random(32);
  const int count = cases(30, 300);
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    PlanSpace space(random_question(random));
    if (random() % 2 == 0) {
      const Family& one = one_of(random, all_families());
      if (one.name != "naive") space.narrow(fmt::format("schedule={}", one.name));
    }
    drop_values(space, random, 1'000);
    PlanSearch how;
    how.memory_cap_bytes =
        one_of<std::int64_t>(random, {unlimited, std::int64_t{2} << 30, std::int64_t{6} << 30});
    how.top = one_of<std::size_t>(random, {1, 3, 10});
    how.aim = one_of<PlanAim>(random, {PlanAim::time, PlanAim::memory});
    LayoutPlanner planner(space, {});
    const PlanResult found = planner.best(how);
    PlanCounts counts;
    std::vector<PlanOutcome> all = try_everything(space, counts, how);
    EXPECT_EQ(found.counts.impossible, counts.impossible);
    EXPECT_EQ(found.counts.sum(), space.axes().size());
    EXPECT_EQ(found.counts.not_reached, 0);
    // Of each split the first.
    std::set<std::int64_t> splits;
    std::erase_if(all, [&](const PlanOutcome& one) {
      return !splits.insert(space.axes().split_of(one.index)).second;
    });
    all.resize(std::min(all.size(), how.top));
    ASSERT_EQ(found.best.size(), all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(by_aim(how.aim, found.best[k]), by_aim(how.aim, all[k]));
    }
    // How many are better than the last of them.
    if (!all.empty()) {
      PlanSearch better = how;
      better.top = 1'000;
      better.below = by_aim(how.aim, all.back()).first;
      const auto faster = std::ranges::count_if(
          all, [&](const PlanOutcome& one) { return by_aim(how.aim, one).first < better.below; });
      EXPECT_EQ(std::ssize(planner.best(better).best), faster);
    }
    // Threads and what was asked before change nothing.
    LayoutPlanner other(space, {.threads = 3});
    PlanSearch before = how;
    before.memory_cap_bytes = one_of<std::int64_t>(random, {0, std::int64_t{3} << 30, unlimited});
    other.best(before);
    const PlanResult again = other.best(how);
    EXPECT_EQ(again.evaluated.size(), found.evaluated.size());
    EXPECT_EQ(again.counts.dominated, found.counts.dominated);
    if (!all.empty()) {
      EXPECT_EQ(again.best.front().index, found.best.front().index);
    }
    if (HasFailure()) break;
  }
}

// Bounds of points drawn from whole spaces, large schedules among them.
TEST(PlanBounds, AreNeverAboveWhatAnEvaluationFinds) {
  std::mt19937_64 random(33);
  const int points = cases(1'000, 100'000);
  int tried = 0;
  while (tried < points) {
    PlanQuestion question = random_question(random);
    question.training.model.blocks = one_of<std::int64_t>(random, {8, 16, 24});
    const PlanSpace space(std::move(question));
    PointCertifier certifier(space);
    for (int draws = 0; draws < 2'000; ++draws) {
      const auto index =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(space.axes().size()));
      const PlanCertificate certificate = certifier.certify(space.axes().at(index));
      if (certificate.rule) continue;
      ++tried;
      EXPECT_LE(certificate.least_time_ns, certificate.outcome->time_ns) << index;
      EXPECT_LE(certificate.least_memory_bytes, certificate.outcome->memory_bytes) << index;
      if (HasFailure()) return;
    }
  }
}

TEST(PlanSearch, StopsWhenToldTo) {
  std::mt19937_64 random(34);
  PlanQuestion question = random_question(random);
  question.devices = 32;
  const PlanSpace space(std::move(question));
  PlanSearch how;
  how.memory_cap_bytes = unlimited;
  int batches = 0;
  how.progress = [&](const PlanOutcome*, std::int64_t) { ++batches; };
  const Budget budget([&] { return batches >= 3; });
  const PlanResult result = LayoutPlanner(space, {.threads = 2, .budget = &budget}).best(how);
  EXPECT_GT(result.counts.not_reached, 0);
  EXPECT_EQ(result.counts.sum(), space.axes().size());
}

}  // namespace
}  // namespace pipesim
