// Expected shares of time and best intervals, against Daly's figures, limits, and a search.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/goodput/answer.h"
#include "sim/goodput/checkpoint.h"
#include "sim/goodput/expectation.h"
#include "tests/errors.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;

double minutes(std::int64_t ns) { return static_cast<double>(ns) / static_cast<double>(minute); }

// As expectation.h has it, straight.
long double plain_goodput(const Checkpointing& job, std::int64_t interval_ns) {
  const auto mtbf = static_cast<long double>(job.mtbf_ns);
  const auto tau = static_cast<long double>(interval_ns);
  return tau / (mtbf * std::exp((job.restart_ns + job.beside_ns) / mtbf) *
                std::expm1((tau + job.hold_ns) / mtbf));
}

double total(const TimeShares& shares) {
  return shares.goodput + shares.saving + shares.repeating + shares.restarting;
}

// Daly, 2006, figures 3 to 5: restarts of 10 min, saves of 5 min.
TEST(Goodput, HasDalysIntervals) {
  const Checkpointing day{24 * hour, 5 * minute, 0, 10 * minute};
  const Checkpointing quarter{6 * hour, 5 * minute, 0, 10 * minute};
  const Checkpointing short_lived{15 * minute, 5 * minute, 0, 10 * minute};
  EXPECT_NEAR(minutes(daly_interval_ns(day)), 117, 0.5);
  EXPECT_NEAR(minutes(daly_interval_ns(quarter)), 57, 0.5);
  EXPECT_NEAR(minutes(daly_interval_ns(short_lived)), 9.1, 0.05);
  EXPECT_NEAR(minutes(young_interval_ns(day)), 120, 1e-9);
  for (const Checkpointing& job : {day, quarter, short_lived}) {
    const auto best = static_cast<double>(best_interval(job, 1));
    EXPECT_NEAR(static_cast<double>(daly_interval_ns(job)) / best, 1, 0.01);
  }
  EXPECT_EQ(daly_interval_ns({minute, 2 * minute, 0, 0}), minute);
}

// Every interval up to several times the best one is tried.
TEST(Goodput, IsBestWhereASearchFindsIt) {
  std::mt19937_64 random(11);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    Checkpointing job;
    job.mtbf_ns = between(minute, 10 * hour);
    job.hold_ns = between(0, i % 3 == 0 ? 2 * job.mtbf_ns : minute);
    job.beside_ns = i % 2 == 0 ? 0 : between(0, 10 * minute);
    job.restart_ns = between(0, 20 * minute);
    const std::int64_t iteration = between(second, 2 * minute);
    const std::int64_t best = best_interval(job, iteration);
    const std::int64_t least =
        std::max<std::int64_t>(1, (job.beside_ns + iteration - 1) / iteration);
    EXPECT_EQ(least, least_interval(job, iteration));
    EXPECT_GE(best, least);
    const auto reached = static_cast<double>(plain_goodput(job, best * iteration));
    for (std::int64_t k = least; k < 4 * best + 100; ++k) {
      EXPECT_GE(reached * (1 + 1e-12), static_cast<double>(plain_goodput(job, k * iteration))) << k;
    }
  }
}

TEST(Goodput, IsAsWrittenAndSharesSumToAll) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(0, 17);
  const auto any = [&] { return static_cast<std::int64_t>(std::pow(10, exponent(random))); };
  int ordinary = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Checkpointing job{any(), any(), i % 2 == 0 ? 0 : any(), any()};
    const std::int64_t interval = std::max(job.beside_ns, any());
    const TimeShares shares = expected_shares(job, interval);
    EXPECT_NEAR(total(shares), 1, 1e-12);
    for (const double share :
         {shares.goodput, shares.saving, shares.repeating, shares.restarting}) {
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
    }
    const long double plain = plain_goodput(job, interval);
    if (!(plain > 1e-200L)) continue;
    EXPECT_NEAR(static_cast<double>(shares.goodput / plain), 1, 1e-9);
    ++ordinary;
  }
  EXPECT_GT(ordinary, 5000);
}

// Without failures, all that is lost is saving.
TEST(Goodput, WithoutFailuresLosesSavesAlone) {
  const Checkpointing job{max_duration_ns, 10 * second, 0, 5 * minute};
  const TimeShares shares = expected_shares(job, 90 * second);
  EXPECT_NEAR(shares.goodput, 0.9, 1e-6);
  EXPECT_NEAR(shares.saving, 0.1, 1e-6);
  EXPECT_NEAR(shares.repeating + shares.restarting, 0, 1e-6);
}

TEST(Goodput, IsNothingWhereSavesOutlastIt) {
  const Checkpointing job{second, hour, 0, minute};
  const TimeShares shares = expected_shares(job, best_interval(job, second) * second);
  EXPECT_GE(shares.goodput, 0);
  EXPECT_LT(shares.goodput, 1e-12);
  EXPECT_NEAR(total(shares), 1, 1e-12);
}

// A save that is written beside costs by what it holds up, and a failure by what was not yet
// written; it is never better than one that holds up for as long and is written at once.
TEST(Goodput, OfAsynchronousSavesLiesBetween) {
  const Checkpointing both{3 * hour, minute, 0, 5 * minute};
  const Checkpointing beside{3 * hour, second, minute, 5 * minute};
  const Checkpointing at_once{3 * hour, second, 0, 5 * minute};
  const auto best = [](const Checkpointing& job) {
    return expected_shares(job, best_interval(job, second) * second).goodput;
  };
  EXPECT_GT(best(beside), best(both));
  EXPECT_GT(best(at_once), best(beside));
}

TEST(Goodput, OfASlowWriteSavesNoSoonerThanItIsWritten) {
  const Checkpointing job{hour, second, 20 * minute, minute};
  EXPECT_EQ(best_interval(job, 7 * second) * 7, 1204) << "the first multiple of 7 s from 1200 s on";
}

TEST(Checkpoint, HasFourteenBytesAParameterOrTwelve) {
  const Model model = find_model("llama-3-405b");
  EXPECT_EQ(checkpoint_bytes(model, Precision::bf16), 14 * model.parameters());
  EXPECT_EQ(checkpoint_bytes(model, Precision::fp8), 14 * model.parameters());
  EXPECT_EQ(checkpoint_bytes(model, Precision::fp32), 12 * model.parameters());
}

TEST(Checkpoint, MovesAtARateOfAllOrOfEach) {
  const SaveRate shared = parse_save_rate("2GB/s", "--storage");
  const SaveRate each = parse_save_rate("2GB/s/device", "--storage");
  EXPECT_EQ(moving_ns(4'000'000'000, shared, {}, "--storage"), 2 * second);
  EXPECT_EQ(moving_ns(4'000'000'000, shared, 64, "--storage"), 2 * second);
  EXPECT_EQ(moving_ns(4'000'000'000, each, 4, "--storage"), second / 2);
  EXPECT_EQ(moving_ns(1, parse_save_rate("1000TB/s", "x"), 1, "x"), 1);
  EXPECT_EQ(moving_ns(max_bytes, {max_bytes_per_second, true}, 1'000'000'000, "x"), 2);
  EXPECT_NE(testing::error_of([&] { moving_ns(1, each, {}, "--storage"); }).find("give --devices"),
            std::string::npos);
  for (const char* rate : {"0", "0GB/s", "0GB/s/device"}) {
    EXPECT_NE(
        testing::error_of([&] { parse_save_rate(rate, "--storage"); }).find("never saves anything"),
        std::string::npos);
  }
  EXPECT_NE(testing::error_of([] {
              moving_ns(max_bytes, {1, false}, {}, "--storage");
            }).find("give a faster one"),
            std::string::npos);
}

TEST(GoodputAnswer, TakesTheBestIntervalOrTheOneGiven) {
  GoodputQuestion question;
  question.job = {3 * hour, 10 * second, 0, 5 * minute};
  question.iteration_ns = 12 * second;
  question.trials.count = 20;
  const GoodputAnswer best = answer(question);
  EXPECT_EQ(best.interval_ns, best.best_interval_ns);
  EXPECT_EQ(best.interval_ns % (12 * second), 0);
  EXPECT_EQ(best.run.work_ns(), 30 * 24 * hour);
  question.interval = 2;
  const GoodputAnswer given = answer(question);
  EXPECT_EQ(given.interval_ns, 24 * second);
  EXPECT_EQ(given.best_interval_ns, best.best_interval_ns);
  EXPECT_LT(given.shares.goodput, best.shares.goodput);
  question.job.beside_ns = 30 * second;
  EXPECT_NE(testing::error_of([&] { answer(question); }).find("nearest valid: 3"),
            std::string::npos);
}

TEST(GoodputAnswer, SimulatesNothingThatTakesCenturies) {
  GoodputQuestion question;
  question.job = {second, hour, 0, minute};
  const GoodputAnswer found = answer(question);
  EXPECT_FALSE(found.spread);
  EXPECT_FALSE(found.trial);
}

}  // namespace
}  // namespace pipesim
