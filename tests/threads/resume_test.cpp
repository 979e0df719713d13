// A training that goes on from a checkpoint, in the same layout or another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/quick_disk.h"

namespace pipesim {
namespace {

using exec::RunResult;
using exec::TrainingJob;
using testing::TemporaryFolder;
using testing::tiny_model;
using testing::tiny_training;

// What was synced does not matter here.
RunResult run_saving(const TrainingJob& training, std::function<bool()> is_to_stop = {}) {
  testing::QuickDisk disk;
  exec::Checkpointing how;
  how.disk = &disk;
  how.is_to_stop = std::move(is_to_stop);
  return testing::run_locally(training, {}, {}, nullptr, {}, how);
}

struct TrainingLayout {
  std::string name;
  std::string family = "1f1b";
  int stages = 1;
  int replicas = 1;
  int tensor = 1;
  int zero = 0;
  std::optional<int> shard_over = {};
  bool splits_tokens = false;
};

const std::vector<TrainingLayout> layouts{
    {.name = "one"},
    {.name = "p2", .stages = 2},
    {.name = "p4", .stages = 4},
    {.name = "interleaved", .family = "interleaved", .stages = 2},
    {.name = "zb", .family = "zb-h1", .stages = 2},
    {.name = "two copies", .family = "dualpipe", .stages = 2},
    {.name = "d2", .replicas = 2},
    {.name = "d4 zero 2 over 2", .replicas = 4, .zero = 2, .shard_over = 2},
    {.name = "p2 d2 zero 3", .stages = 2, .replicas = 2, .zero = 3},
    {.name = "p2 d2 zero 1 t2", .stages = 2, .replicas = 2, .tensor = 2, .zero = 1},
    {.name = "t2 by tokens", .tensor = 2, .splits_tokens = true}};

// Of eight sequences an iteration in any layout.
TrainingJob job_of(const TrainingLayout& layout, int iterations, int accumulate) {
  ScheduleRequest request;
  request.name = layout.family;
  request.ranks = layout.stages;
  request.microbatches = 4 / layout.replicas;
  Training asked;
  asked.data_parallel = layout.replicas;
  asked.zero = layout.zero;
  asked.shard_over = layout.shard_over;
  TrainingJob training = tiny_training(with_replicas(generate(request), asked), tiny_model(6));
  training.data_parallel = layout.replicas;
  training.zero = layout.zero;
  training.shard_over = layout.shard_over;
  training.tensor_parallel = layout.tensor;
  training.sequence_parallel = layout.splits_tokens;
  training.sequence_length = 4;
  training.iterations = iterations;
  training.accumulate = accumulate;
  training.verify = false;
  return training;
}

void save_to(TrainingJob& training, const TemporaryFolder& folder, int every) {
  training.saves.emplace();
  training.saves->folder = folder / "ck";
  training.saves->every = every;
  training.saves->keep = 9;
}

// As if the training had been struck behind that iteration.
void end_at(const std::string& folder, int iteration) {
  const std::string newest = "iteration-0000000" + std::to_string(iteration);
  for (const std::string& name : exec::names_in(folder)) {
    if (name > newest && name != "latest") std::filesystem::remove_all(folder + "/" + name);
  }
}

// As far as rounding lets them differ.
void expect_near(const std::vector<double>& losses, const std::vector<double>& expected,
                 const std::string& where) {
  ASSERT_EQ(losses.size(), expected.size()) << where;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 2e-5) << where << ", loss " << i;
  }
}

// Runs 3 iterations of `first` and goes on as `second` to the sixth.
RunResult run_in_two(const TrainingLayout& first, const TrainingLayout& second, int accumulate,
                     bool beside, const std::string& folder, bool verify) {
  TrainingJob begun = job_of(first, 6, accumulate);
  begun.saves = exec::SavePlan{.folder = folder, .every = 3, .keep = 2, .beside = beside};
  begun.iterations = 3;
  run_saving(begun);
  TrainingJob rest = job_of(second, 6, accumulate);
  rest.resume = folder;
  rest.verify = verify;
  return run_saving(rest);
}

TEST(Resume, EveryLayoutGoesOnInEveryOther) {
  std::vector<std::vector<double>> undisturbed;
  for (const TrainingLayout& layout : layouts) {
    undisturbed.push_back(run_saving(job_of(layout, 6, 1)).losses);
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    for (std::size_t j = 0; j < layouts.size(); ++j) {
      const TemporaryFolder folder(testing::memory_folder());
      const std::string where = layouts[i].name + " to " + layouts[j].name;
      const bool beside = (i + j) % 2 == 1;
      const RunResult result = run_in_two(layouts[i], layouts[j], 1, beside, folder / "ck", true);
      EXPECT_EQ(result.resumed_at, 3) << where;
      EXPECT_TRUE(result.verification->bitwise) << where << ": " << result.verification->worst;
      EXPECT_EQ(result.run.iterations.size(), 3U) << where;
      expect_near(result.losses, undisturbed[j], where);
      if (i == j) {
        EXPECT_EQ(result.losses, undisturbed[j]) << where;
      }
      // What was before is the first layout's to the bit.
      EXPECT_TRUE(
          std::equal(undisturbed[i].begin(), undisturbed[i].begin() + 3, result.losses.begin()))
          << where;
    }
  }
}

// Three passes to a step: the checkpoint stands behind the second step's first.
TEST(Resume, AmidAStepSumsAreBroughtAlong) {
  const int accumulate = 3;
  const auto run_all = [&](const TrainingLayout& layout) {
    return run_saving(job_of(layout, 6, accumulate)).losses;
  };
  std::vector<std::vector<double>> undisturbed;
  for (const TrainingLayout& layout : layouts) undisturbed.push_back(run_all(layout));
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    for (std::size_t j = 0; j < layouts.size(); ++j) {
      for (const int at : {1, 2, 4}) {
        if (i != j && at != 4) continue;
        const TemporaryFolder folder(testing::memory_folder());
        const std::string where =
            layouts[i].name + " to " + layouts[j].name + " at " + std::to_string(at);
        TrainingJob begun = job_of(layouts[i], 6, accumulate);
        begun.saves =
            exec::SavePlan{.folder = folder / "ck", .every = at, .keep = 99, .beside = false};
        run_saving(begun);
        end_at(folder / "ck", at);
        TrainingJob rest = job_of(layouts[j], 6, accumulate);
        rest.resume = folder / "ck";
        const RunResult result = run_saving(rest);
        EXPECT_EQ(result.resumed_at, at) << where;
        expect_near(result.losses, undisturbed[j], where);
        if (i == j) {
          EXPECT_EQ(result.losses, undisturbed[j]) << where;
        }
      }
    }
  }
}

TEST(Resume, TheWarmUpIsNotDoneTwice) {
  for (const int at : {1, 2, 3, 5}) {
    const TemporaryFolder folder(testing::memory_folder());
    TrainingJob training = job_of(layouts[1], 3, 1);
    training.warmup = 2;
    const RunResult whole = run_saving(training);
    TrainingJob begun = training;
    begun.saves = exec::SavePlan{.folder = folder / "ck", .every = 1, .keep = 9, .beside = false};
    run_saving(begun);
    end_at(folder / "ck", at);
    training.resume = folder / "ck";
    const RunResult result = run_saving(training);
    EXPECT_EQ(result.resumed_at, at);
    EXPECT_EQ(result.warmup_losses, whole.warmup_losses);
    EXPECT_EQ(result.losses, whole.losses);
    EXPECT_EQ(static_cast<int>(result.run.iterations.size()), 5 - std::max(2, at));
    EXPECT_EQ(result.has_iterations(), at < 5);
  }
}

TEST(Resume, ADamagedOneIsPassedOver) {
  const TemporaryFolder folder(testing::memory_folder());
  TrainingJob training = job_of(layouts[1], 6, 1);
  const std::vector<double> whole = run_saving(training).losses;
  save_to(training, folder, 2);
  run_saving(training);
  const std::string newest = folder / "ck/iteration-00000006/rank-0001.safetensors";
  std::string bytes = read_file(newest);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(newest, bytes);
  std::filesystem::remove(folder / "ck/iteration-00000004/manifest.json");
  training.resume = folder / "ck";
  const RunResult result = run_saving(training);
  EXPECT_EQ(result.resumed_at, 2);
  EXPECT_EQ(result.losses, whole);
}

// Whoever is asked to stop saves first, at the end of a step.
TEST(Resume, AStopIsSaved) {
  const TemporaryFolder folder(testing::memory_folder());
  TrainingJob training = job_of(layouts[1], 6, 2);
  const std::vector<double> whole = run_saving(training).losses;
  save_to(training, folder, 100);
  const RunResult stopped = run_saving(training, [] { return true; });
  EXPECT_EQ(stopped.stopped_at, 2);
  training.resume = folder / "ck";
  const RunResult result = run_saving(training);
  EXPECT_EQ(result.resumed_at, 2);
  EXPECT_EQ(result.losses, whole);
}

TEST(Resume, AnotherTrainingIsRefused) {
  const TemporaryFolder folder(testing::memory_folder());
  TrainingJob training = job_of(layouts[1], 4, 2);
  save_to(training, folder, 3);
  run_saving(training);
  training.saves.reset();
  training.resume = folder / "ck";
  const auto refusal = [&](const std::function<void(TrainingJob&)>& change) {
    TrainingJob other = training;
    change(other);
    return testing::input_error_of([&] { run_saving(other); });
  };
  const auto expect = [&](const std::function<void(TrainingJob&)>& change,
                          const std::string& part) {
    const std::string error = refusal(change);
    EXPECT_NE(error.find(part), std::string::npos) << part << ": " << error;
  };
  expect(
      [](TrainingJob& job) {
        job.model.name = "other", job.model.blocks = 2, job.layout = {2, 2};
      },
      "is for model 'tiny', not 'other'");
  expect([](TrainingJob& job) { job.model.mlp_size = 16; }, "is for another model 'tiny'");
  expect([](TrainingJob& job) { job.seed = 2; }, "was made with --seed 1, not 2");
  expect([](TrainingJob& job) { job.sequence_length = 2; }, "--sequence-length 4, not 2");
  expect([](TrainingJob& job) { job.warmup = 1; }, "--warmup 0, not 1");
  expect([](TrainingJob& job) { job.accumulate = 1; }, "--accumulate 2, not 1");
  expect([&](TrainingJob& job) { job.resume = folder / "none"; }, "there is no checkpoint");
  expect(
      [&](TrainingJob& job) {
        job.resume.clear();
        job.saves.emplace().folder = folder / "ck";
      },
      "has a checkpoint of iteration 4; give --resume");
  EXPECT_EQ(refusal([](TrainingJob&) {}), testing::no_error);
}

}  // namespace
}  // namespace pipesim
