// Runs that failures hit, against an interpreter that goes nanosecond by nanosecond, and their
// means against the closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sim/goodput/run.h"
#include "tests/errors.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t a_second = 1'000'000'000;

// What is under way, and what was saved, one nanosecond after the other.
class Ticking {
 public:
  explicit Ticking(const SavedRun& run) : run_(run) {}

  RunTimes times(const std::vector<std::int64_t>& failures) {
    std::size_t next = 0;
    for (std::int64_t now = 0;; ++now) {
      settle();
      for (; !ended_ && next < failures.size() && failures[next] == now; ++next) {
        fail();
        settle();
      }
      if (ended_) break;
      tick();
    }
    times_.useful_ns = run_.iterations * run_.iteration_ns;
    times_.repeating_ns = trained_ - times_.useful_ns;
    return times_;
  }

 private:
  enum class Phase : std::uint8_t { training, held, restarting };

  void settle() {
    if (writing_ && write_left_ == 0) {
      saved_ = pending_;
      writing_ = false;
    }
    if (phase_ == Phase::restarting && left_ == 0) phase_ = Phase::training;
    const bool is_due = at_ > begun_ && at_ % (run_.interval * run_.iteration_ns) == 0;
    if (phase_ == Phase::training && is_due) {
      phase_ = Phase::held;
      left_ = run_.job.hold_ns;
    }
    if (phase_ == Phase::held && left_ == 0) {
      phase_ = Phase::training;
      begun_ = pending_ = at_;
      write_left_ = run_.job.beside_ns;
      writing_ = write_left_ > 0;
      if (!writing_) saved_ = at_;
    }
    ended_ = phase_ == Phase::training && at_ == run_.iterations * run_.iteration_ns;
  }
  void fail() {
    ++times_.failures;
    at_ = begun_ = saved_;
    writing_ = false;
    phase_ = Phase::restarting;
    left_ = run_.job.restart_ns;
  }
  void tick() {
    if (writing_) --write_left_;
    switch (phase_) {
      case Phase::training:
        ++at_;
        ++trained_;
        break;
      case Phase::held:
        --left_;
        ++times_.saving_ns;
        break;
      case Phase::restarting:
        --left_;
        ++times_.restarting_ns;
        break;
    }
  }

  SavedRun run_;
  RunTimes times_;
  Phase phase_ = Phase::training;
  bool ended_ = false;
  bool writing_ = false;
  // Training, in nanoseconds from the run's start: now, and at saves.
  std::int64_t at_ = 0, begun_ = 0, pending_ = 0, saved_ = 0;
  std::int64_t left_ = 0, write_left_ = 0, trained_ = 0;
};

std::vector<std::int64_t> values_of(const RunTimes& times) {
  return {times.useful_ns, times.saving_ns, times.repeating_ns, times.restarting_ns,
          times.failures};
}

// Iterations of 10 ns, a save of 5 after every third, restarts of 7.
TEST(FailingRun, IsAsByHand) {
  const SavedRun run{{100, 5, 0, 7}, 10, 8, 3};
  EXPECT_EQ(values_of(run_with(run, std::vector<std::int64_t>{})),
            (std::vector<std::int64_t>{80, 10, 0, 0, 0}));
  // Hit in the first save at 33: all 30 again from 40 on, saved at 75; again at 80.
  EXPECT_EQ(values_of(run_with(run, std::vector<std::int64_t>{33, 80})),
            (std::vector<std::int64_t>{80, 3 + 5 + 5, 30 + 5, 14, 2}));
  // A failure that hits a restart lets it begin again.
  EXPECT_EQ(values_of(run_with(run, std::vector<std::int64_t>{3, 9})),
            (std::vector<std::int64_t>{80, 10, 3, 6 + 7, 2}));
  // One at the very end of a save loses nothing, one behind the run's end does not count.
  EXPECT_EQ(values_of(run_with(run, std::vector<std::int64_t>{35, 97})),
            (std::vector<std::int64_t>{80, 10, 0, 7, 1}));
}

// A save is held for 2 and written until 6 later, within the next segment of 30.
TEST(FailingRun, FallsBackToTheSaveBefore) {
  const SavedRun run{{100, 2, 6, 7}, 10, 9, 3};
  EXPECT_EQ(values_of(run_with(run, std::vector<std::int64_t>{69})),
            (std::vector<std::int64_t>{90, 2 * 2 + 2 * 2, 30 + 5, 7, 1}));
  EXPECT_EQ(values_of(run_with(run, std::vector<std::int64_t>{70})),
            (std::vector<std::int64_t>{90, 2 + 2 + 2, 6, 7, 1}));
}

TEST(FailingRun, AgreesWithTicks) {
  std::mt19937_64 random(3);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int failures_met = 0;
  for (int i = 0; i < 3000; ++i) {
    SavedRun run;
    run.iteration_ns = between(1, 9);
    run.iterations = between(1, 20);
    run.interval = between(1, 6);
    run.job = {1, between(0, 7), i % 2 == 0 ? 0 : between(0, run.interval * run.iteration_ns),
               between(0, 12)};
    std::vector<std::int64_t> failures(static_cast<std::size_t>(between(0, 12)));
    for (std::int64_t& at : failures) at = between(0, 300);
    std::ranges::sort(failures);
    const RunTimes expected = Ticking(run).times(failures);
    EXPECT_EQ(values_of(run_with(run, failures)), values_of(expected)) << i;
    failures_met += static_cast<int>(expected.failures);
  }
  EXPECT_GT(failures_met, 5000);
}

struct Mean {
  double value = 0;
  double error = 0;  // standard
};

Mean mean_of(const std::vector<double>& all) {
  Mean mean;
  const auto count = static_cast<double>(all.size());
  for (const double one : all) mean.value += one / count;
  double squares = 0;
  for (const double one : all) squares += (one - mean.value) * (one - mean.value);
  mean.error = std::sqrt(squares / (count - 1) / count);
  return mean;
}

void expect_means_as_in_closed_form(const Checkpointing& job, std::int64_t interval) {
  const SavedRun run{job, 12 * a_second, 400 * interval, interval};
  const TimeShares shares = expected_shares(job, interval * run.iteration_ns);
  const double wall = static_cast<double>(run.work_ns()) / shares.goodput;
  constexpr int trials = 2000;
  std::vector<double> walls, saving, repeating, restarting;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    DrawnFailures failures(job.mtbf_ns, 42, trial);
    const RunTimes times = run_with(run, [&] { return failures.next(); });
    EXPECT_EQ(times.useful_ns, run.work_ns());
    walls.push_back(static_cast<double>(times.wall_ns()));
    saving.push_back(static_cast<double>(times.saving_ns));
    repeating.push_back(static_cast<double>(times.repeating_ns));
    restarting.push_back(static_cast<double>(times.restarting_ns));
  }
  // Of 400 segments the first has no save before it to be written, the rest is noise.
  const auto expect = [&](const std::vector<double>& all, double expected, const char* what) {
    const Mean mean = mean_of(all);
    const double first = static_cast<double>(job.beside_ns) / 400 / 100 * expected / wall;
    EXPECT_NEAR(mean.value, expected, 4 * mean.error + first + expected * 1e-4) << what;
    EXPECT_LT(mean.error, 0.02 * mean.value) << what;
  };
  expect(walls, wall, "wall");
  expect(saving, wall * shares.saving, "saving");
  expect(repeating, wall * shares.repeating, "repeating");
  expect(restarting, wall * shares.restarting, "restarting");
  const GoodputSpread spread = try_runs(run, {42, trials});
  EXPECT_NEAR(spread.mean, static_cast<double>(run.work_ns()) / mean_of(walls).value, 1e-12);
  EXPECT_LT(spread.p5, spread.p50);
  EXPECT_LT(spread.p50, spread.p95);
  EXPECT_NEAR(spread.p50, shares.goodput, 0.01);
}

TEST(FailingRun, HasTheMeansOfTheClosedForm) {
  expect_means_as_in_closed_form({3 * 3600 * a_second, 40 * a_second, 0, 300 * a_second}, 80);
  expect_means_as_in_closed_form({600 * a_second, 30 * a_second, 0, 300 * a_second}, 12);
}

TEST(FailingRun, HasThemWithAsynchronousSaves) {
  expect_means_as_in_closed_form({3 * 3600 * a_second, a_second, 500 * a_second, 300 * a_second},
                                 50);
  expect_means_as_in_closed_form({900 * a_second, 5 * a_second, 240 * a_second, 120 * a_second},
                                 20);
}

TEST(FailingRun, RefusesWhatIsOutOfOrderOrNeverEnds) {
  const SavedRun run{{100, 5, 0, 7}, 10, 8, 3};
  EXPECT_NE(testing::input_error_of([&] {
              run_with(run, std::vector<std::int64_t>{50, 30});
            }).find("sort"),
            std::string::npos);
  const SavedRun longest{{100, max_duration_ns, 0, 7}, max_duration_ns, 10, 1};
  EXPECT_NE(testing::input_error_of([&] {
              run_with(longest, std::vector<std::int64_t>{});
            }).find("292 years"),
            std::string::npos);
}

TEST(DrawnFailures, AreExponential) {
  constexpr std::int64_t mtbf = 3600 * a_second;
  DrawnFailures failures(mtbf, 1, 0);
  std::vector<double> gaps;
  std::int64_t last = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::int64_t at = failures.next();
    ASSERT_GE(at, last);
    gaps.push_back(static_cast<double>(at - last) / static_cast<double>(mtbf));
    last = at;
  }
  EXPECT_NEAR(mean_of(gaps).value, 1, 4 * mean_of(gaps).error);
  std::ranges::sort(gaps);
  for (const double share : {0.1, 0.5, 0.9, 0.99}) {
    const double quantile = gaps[static_cast<std::size_t>(share * 100'000)];
    EXPECT_NEAR(quantile / -std::log(1 - share), 1, 0.03) << share;
  }
}

// The same everywhere, for ever.
TEST(DrawnFailures, AreBySeedAndTrialAlone) {
  const auto first = [](std::uint64_t seed, std::uint64_t trial) {
    DrawnFailures failures(3 * a_second, seed, trial);
    return std::vector<std::int64_t>{failures.next(), failures.next(), failures.next()};
  };
  EXPECT_EQ(first(7, 0), (std::vector<std::int64_t>{2'680'804'042, 2'690'608'504, 9'556'862'891}));
  EXPECT_EQ(first(7, 0), first(7, 0));
  EXPECT_NE(first(7, 0), first(8, 0));
  EXPECT_NE(first(7, 0), first(7, 1));
  DrawnFailures rare(max_duration_ns, 1, 0);
  std::int64_t at = 0;
  for (int i = 0; i < 100; ++i) at = rare.next();
  EXPECT_EQ(at, no_failure);
}

}  // namespace
}  // namespace pipesim
