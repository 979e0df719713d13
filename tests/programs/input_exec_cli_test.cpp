// pipeexec --input-pipeline driven as a user would, ranks as threads: what it prints, writes and
// refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/command.h"
#include "tests/exec_calls.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/read/input_trace.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;
using testing::pipeexec;
using testing::pipeexec_json;
using testing::TemporaryFolder;

void expect_sentence(const std::string& line, const std::string& sentence, int status = 2) {
  const Outcome outcome = pipeexec(line);
  EXPECT_EQ(outcome.status, status) << line;
  EXPECT_EQ(outcome.out, "") << line;
  EXPECT_EQ(outcome.err, "pipeexec: " + sentence + "\n") << line;
}

const std::string six_batches = " --ranks 2 --batches 6 --batch-size 16";
const std::string sparse_dist = "--input-pipeline sparse-dist" + six_batches;

TEST(InputPipeexec, PrintsTheContractsKeys) {
  const Json json = pipeexec_json(sparse_dist + " --accumulate 2 --verify");
  EXPECT_EQ(json["format"], "pipeexec-result");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["input_pipeline"], "sparse-dist");
  EXPECT_EQ(json["model"], "dlrm-mini");
  EXPECT_EQ(json["batches"], 6);
  EXPECT_EQ(json["accumulate"], 2);
  EXPECT_EQ(json["batch_size"], 16);
  EXPECT_EQ(json["transport"], "local");
  EXPECT_EQ(json["losses"].size(), 6);
  EXPECT_EQ(json["verify"], Json({{"bitwise", true}}));
  EXPECT_EQ(json["sharding"]["format"], "pipesim-sharding-plan");
  const double rate = 2 * 16 * 1e9 / json["steady_iteration_ns"].get<double>();
  EXPECT_NEAR(json["samples_per_second"].get<double>(), rate, 1e-6 * rate);
  ASSERT_EQ(json["ranks"].size(), 2);
  for (int rank = 0; rank < 2; ++rank) {
    const Json& own = json["ranks"][static_cast<std::size_t>(rank)];
    EXPECT_EQ(own["rank"], rank);
    std::int64_t bytes = 0;
    for (const auto& [what, part] : own["memory_bytes"].items()) bytes += part.get<std::int64_t>();
    EXPECT_EQ(own["peak_memory_bytes"], bytes);
    EXPECT_GT(own["memory_bytes"]["tables"], 0);
    // Busy, or exposed, or over: all of the makespan.
    std::int64_t all = own["busy_ns"].get<std::int64_t>() + own["drain_ns"].get<std::int64_t>();
    for (const auto& [what, time] : own["exposed_ns"].items()) all += time.get<std::int64_t>();
    EXPECT_EQ(all, json["makespan_ns"]);
  }
}

TEST(InputPipeexec, EveryProgramGivesTheBitsOfOneRank) {
  for (const char* program : {"base", "sparse-dist", "lite", "fused", "semi-sync", "prefetch",
                              "staged", "staged --input-stages copy,prepare,dist"}) {
    for (const char* more : {" --accumulate 3", " --table-optimizer adagrad --epochs 2"}) {
      const std::string line =
          std::string("--input-pipeline ") + program + six_batches + more + " --verify";
      EXPECT_EQ(pipeexec_json(line)["verify"]["bitwise"], true) << line;
    }
  }
}

// The same samples are trained with, however many ranks share them; semi-sync trains others.
TEST(InputPipeexec, LossesAreThoseOfAnyOverlap) {
  const Json losses = pipeexec_json(sparse_dist)["losses"];
  for (const char* program : {"base", "lite", "fused", "prefetch", "staged"}) {
    EXPECT_EQ(pipeexec_json("--input-pipeline " + std::string(program) + six_batches)["losses"],
              losses)
        << program;
  }
  EXPECT_NE(pipeexec_json("--input-pipeline semi-sync" + six_batches)["losses"], losses);
}

TEST(InputPipeexec, TrainsAndEvaluates) {
  const Json json = pipeexec_json(sparse_dist + " --epochs 3 --evaluate 2 --learning-rate 0.2");
  ASSERT_EQ(json["losses"].size(), 18);
  ASSERT_EQ(json["evaluations"].size(), 3);
  const auto mean = [&](int epoch) {
    double sum = 0;
    for (int i = 0; i < 6; ++i) {
      sum += json["losses"][static_cast<std::size_t>(6 * epoch + i)].get<double>();
    }
    return sum / 6;
  };
  EXPECT_LT(mean(2), mean(0));
  // Evaluations leave the training alone.
  EXPECT_EQ(pipeexec_json(sparse_dist + " --epochs 3 --learning-rate 0.2")["losses"],
            json["losses"]);
}

TEST(InputPipeexec, ReportsToAPerson) {
  const Outcome outcome = pipeexec(sparse_dist + " --verify --epochs 2 --evaluate 1");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("sparse-dist, dlrm-mini, 2 ranks, 6 batches: "))
      << outcome.out;
  for (const char* part :
       {" exposed", "\nIDS ", "\nTOP_BACKWARD ", "\nother ranks ",
        "\nmodel   dlrm-mini: 8 tables, batches of 16 samples per rank",
        "the last of 2 epochs is shown", " of 1 other batch after epoch 2",
        "\nverify  losses, tables and dense part equal one rank's bit for bit\n"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  const Outcome quiet = pipeexec(sparse_dist + " --quiet");
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST(InputPipeexec, WritesATraceThatIsReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.json.gz";
  const Json json = pipeexec_json(sparse_dist + " --trace " + path);
  const InputRun run = read_input_run(path);
  EXPECT_TRUE(run.is_measured);
  EXPECT_EQ(run.model, "dlrm-mini");
  EXPECT_EQ(run.program.ranks(), 2);
  EXPECT_EQ(measure(run).makespan_ns, json["makespan_ns"]);
  EXPECT_EQ(Json(run.losses), json["losses"]);
}

// A model of two tables, and eleven samples.
class PipeexecOfAFile : public ::testing::Test {
 protected:
  PipeexecOfAFile() {
    write_file(folder_ / "model.json", R"({"format": "pipesim-model", "version": 1,
      "name": "two", "dense_features": 1, "bottom": [2], "top": [1], "interaction": "dot",
      "tables": [{"name": "shop", "rows": 9, "width": 2}, {"name": "item", "rows": 5, "width": 2}]})");
    for (int i = 0; i < 11; ++i) samples_ += "1 | 0.5 | 3 3 | " + std::to_string(i % 5) + "\n";
    write_file(batches_, head_ + samples_);
    write_file(plan_, R"({"format": "pipesim-sharding-plan", "version": 1, "tables": {
      "shop": {"sharding": "row-wise"}, "item": {"sharding": "data-parallel"}}})");
  }

  TemporaryFolder folder_;
  std::string batches_ = folder_ / "batches.txt";
  std::string plan_ = folder_ / "plan.json";
  std::string head_ = "pipesim-batches 1\nsamples 11\ndense 1\ntable shop\ntable item\n";
  std::string samples_;
  std::string good_ = "--input-pipeline sparse-dist --ranks 2 --batch-size 2 --model " +
                      (folder_ / "model.json") + " --data " + batches_;
};

TEST_F(PipeexecOfAFile, TrainsWithAllOfIt) {
  const Json json = pipeexec_json(good_ + " --verify --sharding " + plan_);
  EXPECT_EQ(json["batches"], 2);  // of 2 x 2 samples
  EXPECT_EQ(json["data"], batches_);
  EXPECT_EQ(json["verify"]["bitwise"], true);
  EXPECT_EQ(pipeexec_json(good_ + " --evaluate 1")["batches"], 1);
  const Outcome outcome = pipeexec(good_);
  EXPECT_NE(outcome.out.find("the last 3 of 11 samples are left out"), std::string::npos)
      << outcome.out;
}

TEST_F(PipeexecOfAFile, NamesWhatIsWrong) {
  expect_sentence(good_ + " --batches 3",
                  batches_ +
                      ": 11 samples make 2 batches of 2 for each of 2 ranks, not 3; take "
                      "fewer batches, or smaller ones");
  expect_sentence(good_ + " --evaluate 2",
                  batches_ +
                      ": 11 samples make 2 batches of 2 for each of 2 ranks, not 3; take "
                      "fewer batches, or smaller ones");
  write_file(batches_, head_ + samples_.substr(0, samples_.size() / 2));
  EXPECT_NE(pipeexec(good_).err.find(batches_ + ":11: "), std::string::npos) << pipeexec(good_).err;
  write_file(batches_, head_ + "1 | 0.5 | 9 | 1\n" + samples_);
  expect_sentence(good_, batches_ + ":6: id 9 is not in table 'shop', whose ids are 0 to 8");
  write_file(plan_, R"({"format": "pipesim-sharding-plan", "version": 1, "tables": {
      "shop": {"sharding": "row-wise"}}})");
  const std::string err = pipeexec(good_ + " --sharding " + plan_).err;
  EXPECT_NE(err.find("item"), std::string::npos) << err;
}

// Two ranks, and a millisecond for each action.
class EmulatedPipeexec : public ::testing::Test {
 protected:
  EmulatedPipeexec() {
    write_file(costs_, R"({"format": "pipesim-costs", "version": 1, "ranks": 2,
      "batch_size": 100, "links": [{"name": "nic", "bandwidth_bytes_per_s": 1000000000}],
      "work": {"NEXT": {"duration_ns": 1000000}, "COPY": {"duration_ns": 1000000},
               "OUTPUT": {"bytes": 500000, "links": ["nic"]}, "TOP": {"duration_ns": 1000000}}})");
  }

  TemporaryFolder folder_;
  std::string costs_ = folder_ / "costs.json";
  std::string good_ = "--input-pipeline sparse-dist --ranks 2 --batches 4 --device emulated";
};

TEST_F(EmulatedPipeexec, TakesTheTimeOfItsCosts) {
  const Json json = pipeexec_json(good_ + " --costs " + costs_);
  EXPECT_EQ(json["device"], "emulated");
  EXPECT_EQ(json["batch_size"], 100);
  EXPECT_FALSE(json.contains("losses"));
  EXPECT_TRUE(json["verify"].is_null());
  for (const Json& rank : json["ranks"]) {
    EXPECT_GE(rank["busy_by_kind_ns"]["TOP"], 4'000'000);
    // Both send over one link, and it lets no more pass.
    EXPECT_GE(rank["total_ns"]["OUTPUT"], 2'000'000);
  }
  EXPECT_GE(json["makespan_ns"], 4 * 1'000'000 + 1'000'000 + 4 * 500'000);
}

TEST_F(EmulatedPipeexec, RefusesWhatMeansNothing) {
  expect_sentence(good_,
                  "--costs is missing: a file of what each action takes on --device emulated");
  for (const char* flag : {"--model dlrm-mini", "--seed 3", "--batch-size 5", "--epochs 2"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    expect_sentence(good_ + " --costs " + costs_ + " " + flag,
                    name + ": an emulated device trains nothing");
  }
  expect_sentence(good_ + " --verify --costs " + costs_,
                  "--verify: an emulated device has no results to compare");
  expect_sentence("--input-pipeline base --ranks 3 --device emulated --costs " + costs_,
                  costs_ + ": costs of 2 ranks, but there are 3 of them; start as many");
}

// What is read stays as it was.
TEST_F(EmulatedPipeexec, WritesOverNoneOfItsInputs) {
  const std::string before = read_file(costs_);
  expect_sentence(good_ + " --costs " + costs_ + " --trace " + costs_,
                  "--costs and --trace name the same file; write to another");
  EXPECT_EQ(read_file(costs_), before);
  const std::string program = folder_ / "p.program";
  ASSERT_EQ(testing::pipesim({"--input-pipeline", "base", "--costs", costs_, "--batches", "2",
                              "--export", program, "--quiet"})
                .status,
            0);
  const std::string text = read_file(program);
  expect_sentence("--input-pipeline " + program + " --trace " + program,
                  "--input-pipeline and --trace name the same file; write to another");
  EXPECT_EQ(read_file(program), text);
  expect_sentence("--input-pipeline " + program + " --ranks 3",
                  program + ": it is a program of 2 ranks, not of 3");
  expect_sentence("--input-pipeline " + program + " --accumulate 2",
                  "--accumulate: the program's file sets it");
}

TEST_F(EmulatedPipeexec, RefusesCostsThatTakeForEver) {
  write_file(costs_, R"({"format": "pipesim-costs", "version": 1, "ranks": 2,
    "links": [{"name": "nic", "bandwidth_bytes_per_s": 1}],
    "work": {"OUTPUT": {"bytes": 1125899906842624, "links": ["nic"]}}})");
  testing::expect_one_sentence(pipeexec(good_ + " --costs " + costs_), "pipeexec", "slow costs", 2,
                               "take more than 146 years together; use smaller costs");
}

TEST(InputPipeexec, RefusesFlagsThatMeanNothing) {
  expect_sentence(sparse_dist + " --microbatches 8",
                  "--microbatches: it does not apply to an input pipeline; omit it or "
                  "--input-pipeline");
  expect_sentence(
      sparse_dist + " --schedule 1f1b",
      "--schedule: it does not apply to an input pipeline; omit it or --input-pipeline");
  expect_sentence("--schedule 1f1b --stages 2 --microbatches 2 --batch-size 8",
                  "--batch-size: goes with --input-pipeline, which is missing");
  expect_sentence(sparse_dist + " --costs c.json", "--costs: only --device emulated has costs");
  expect_sentence(sparse_dist + " --input-stages copy,dist",
                  "--input-stages: only --input-pipeline staged takes stages");
  expect_sentence(sparse_dist + " --rank 0",
                  "--rank: only --transport tcp is told its ranks; that of this run is local");
  expect_sentence(sparse_dist + " --device cuda",
                  "--device: input pipelines run on cpu and emulated, not on 'cuda'");
  expect_sentence(
      sparse_dist + " --table-optimizer adam",
      "--table-optimizer: unknown optimizer of tables 'adam'; known, nearest first: sgd, "
      "adagrad");
  expect_sentence(sparse_dist + " --sharding auto",
                  "--sharding auto: pipesim chooses it, and prints it with --json; give that as a "
                  "file");
}

TEST(InputPipeexec, RefusesNumbersThatAreNone) {
  expect_sentence("--input-pipeline base",
                  "--ranks is missing: give the number of ranks, or start "
                  "them with mpirun -n P pipeexec");
  expect_sentence("--input-pipeline base --ranks 2000", "--ranks 2000: at most 1024 threads");
  expect_sentence(sparse_dist + " --epochs 0", "--epochs: 0 must be 1 or more");
  expect_sentence(sparse_dist + " --evaluate 0", "--evaluate: 0 must be 1 or more");
  expect_sentence("--input-pipeline base --ranks 2 --batches 0", "--batches: 0 must be 1 or more");
  expect_sentence("--input-pipeline base --ranks 2 --batch-size -1",
                  "--batch-size: -1 must be 1 or more");
  expect_sentence("--input-pipeline base --ranks 1e18", "--ranks: '1e18' is not a whole number");
  expect_sentence(sparse_dist + " --accumulate 7",
                  "--accumulate 7: there are 6 batches; give at most as many");
  expect_sentence(sparse_dist + " --learning-rate nan",
                  "--learning-rate: 'nan' is not a number such as 0.001, up to 1e6");
  expect_sentence(
      "--input-pipeline base --ranks 2 --batches 1000000000",
      "1,000,000,000 batches of 2 ranks are 38,000,000,000 calls, more than this holds in "
      "memory; 4,000,000 batches in all are the most");
  const Outcome large =
      pipeexec("--input-pipeline base --ranks 2 --batches 1 --batch-size 1000000000");
  testing::expect_one_sentence(large, "pipeexec", "a large batch", 2,
                               "--batch-size 1000000000: a batch takes ");
  expect_sentence(sparse_dist + " --learning-rate x",
                  "--learning-rate: 'x' is not a number such as 0.001, up to 1e6");
  const Outcome unknown = pipeexec("--input-pipeline sparsedist --ranks 2");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(unknown.err.starts_with(
      "pipeexec: unknown input pipeline 'sparsedist'; known, nearest first: sparse-dist, "))
      << unknown.err;
}

}  // namespace
}  // namespace pipesim
