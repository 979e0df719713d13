// Checkpoints as a user predicts, calibrates and compares them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using nlohmann::json;

class SaveCommand : public ::testing::Test {
 protected:
  static std::vector<std::string> words(const std::string& line) {
    std::vector<std::string> all;
    for (const std::string_view word : split(line, ' ')) all.emplace_back(word);
    return all;
  }
  std::string run(const std::string& line) {
    const auto outcome = testing::pipesim(words(line));
    EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.err, "") << line;
    return outcome.out;
  }
  json json_of(const std::string& line) { return json::parse(run(line + " --json")); }
  void refuse(const std::string& line, const std::string& part) {
    testing::expect_one_sentence(testing::pipesim(words(line)), "pipesim", line, 2, part);
  }

  const std::string pipeline = "--schedule 1f1b --stages 2 --microbatches 4";
  testing::TemporaryFolder folder;
};

TEST_F(SaveCommand, AddsWhatItTakes) {
  // An iteration takes 15 ms, rank 1 ends it after 13. Then it writes its 1 MB in 1 ms, while rank
  // 0 computes, which has the storage to itself, too.
  const std::string saves =
      pipeline + " --checkpoint-every 5 --checkpoint-bytes 1MB --storage 1GB/s";
  const json result = json_of(saves);
  EXPECT_EQ(result["save"], json::parse(R"({"every":5,"async":false,"bytes":2000000,
      "saved_ns":3000000,"stall_ns":1000000,"mean_iteration_ns":15200000,
      "fraction":0.013157894736842146,"keeps_up":true})"))
      << result["save"].dump();
  EXPECT_EQ(result["makespan_ns"], 15'000'000);
  EXPECT_FALSE(json_of(pipeline).contains("save"));
  const std::string report = run(saves);
  EXPECT_NE(report.find("saves   1.9 MiB every 5 iterations"), std::string::npos) << report;
  EXPECT_NE(report.find("closed form: (p-1)(F+B)"), std::string::npos) << report;
  EXPECT_EQ(report.find("checkpoint;"), std::string::npos) << report;
}

TEST_F(SaveCommand, StandsInPicturesAndTraces) {
  const std::string saves = pipeline +
                            " --checkpoint-every 2 --checkpoint-bytes 1MB --storage 1GB/s "
                            "--iterations 4 --trace " +
                            (folder / "saves.json");
  const std::string report = run(saves + " --async-checkpoint --checkpoint-copy 2GB/s");
  EXPECT_NE(report.find("S checkpoint"), std::string::npos) << report;
  const json trace = json::parse(read_file(folder / "saves.json"));
  const json& about = trace["metadata"]["pipesim"];
  EXPECT_EQ(about["checkpoint_every"], 2);
  EXPECT_EQ(about["async_checkpoint"], true);
  EXPECT_EQ(about["costs"]["save"]["bytes"], json::parse("[1000000,1000000]"));
  int saved = 0;
  int beside = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["args"].value("kind", "") != "SAVE") continue;
    EXPECT_EQ(event["cat"], "storage");
    EXPECT_EQ(event["args"]["bytes"], 1'000'000);
    EXPECT_EQ(event["args"]["iteration"].get<int>() % 2, 1);
    const bool is_beside = event["args"].contains("occurrence");
    ++(is_beside ? beside : saved);
    if (!is_beside) {
      EXPECT_EQ(event["dur"], 500.0);
    }
  }
  EXPECT_EQ(saved, 4);
  EXPECT_EQ(beside, 4);
  // What it was made by and what it says are the same: nothing differs.
  const json compared = json::parse(
      run("compare " + (folder / "saves.json") + " " + (folder / "saves.json") + " --json"));
  EXPECT_EQ(compared["gap_ns"]["total"], 0);
  EXPECT_EQ(compared["unmatched"]["predicted"], 0);
  ASSERT_EQ(compared["saves"].size(), 2);
  EXPECT_EQ(compared["saves"][0]["measured"]["count"], 2);
  EXPECT_EQ(compared["saves"][0]["measured"]["save_ns"], 500'000);
  EXPECT_EQ(compared["saves"][0]["predicted"], compared["saves"][0]["measured"]);
}

// What a prediction was made with is found in its trace, and predicts the same again.
TEST_F(SaveCommand, CalibratesAsItWasMade) {
  const auto costs_with = [&](const std::string& bytes) {
    const std::string stage =
        R"({"forward_ns":1000000,"backward_input_ns":900000,"backward_weight_ns":700000})";
    return R"({"format":"pipesim-costs","version":1,"stages":[)" + stage + "," + stage + "," +
           stage + R"(],"optimizer_ns":5000,"gradient_norm":{"latency_ns":2000},"save":{"bytes":)" +
           bytes +
           R"(,"bandwidth_bytes_per_s":2000000000,"sync_ns":400000,"publish_ns":300000,)"
           R"("copy_bandwidth_bytes_per_s":8000000000}})";
  };
  const std::string shape = "--schedule gpipe --stages 3 --microbatches 3 --costs ";
  const auto calibrated = [&](const std::string& bytes, bool with_copies) {
    write_file(folder / "given.json", costs_with(bytes));
    const std::string predict =
        shape + (folder / "given.json") + " --quiet --iterations 6 --checkpoint-every 2 --trace ";
    run(predict + (folder / "sync.json"));
    std::string line = "calibrate " + (folder / "sync.json");
    if (with_copies) {
      run(predict + (folder / "async.json") + " --async-checkpoint");
      line += " " + (folder / "async.json");
    }
    const std::string said = run(line + " -o " + (folder / "costs.json"));
    EXPECT_NE(said.find("save      storage "), std::string::npos) << said;
    return json::parse(read_file(folder / "costs.json"))["save"];
  };
  // Ranks that write different numbers of bytes tell all of it.
  EXPECT_EQ(calibrated("[1000000,3000000,9000000]", true),
            json::parse(costs_with("[1000000,3000000,9000000]"))["save"]);
  // Else all is the rate: 4 MB in 2.4 ms of the storage.
  const json even = calibrated("[4000000,4000000,4000000]", false);
  EXPECT_EQ(even["sync_ns"], 0);
  EXPECT_EQ(even["publish_ns"], 300'000);
  EXPECT_EQ(even["bandwidth_bytes_per_s"], 1'666'666'667);
  EXPECT_EQ(even["copy_bandwidth_bytes_per_s"], nullptr);
  const auto saved = [&](const std::string& costs) {
    return json_of(shape + (folder / costs) + " --checkpoint-every 3")["save"];
  };
  EXPECT_EQ(saved("costs.json"), saved("given.json"));
}

TEST_F(SaveCommand, FollowsFromAModel) {
  const std::string shape =
      "--schedule 1f1b --stages 4 --microbatches 8 --model gpt2-small --cluster dgx-a100 "
      "--checkpoint-every ";
  const json alone = json_of(shape + "10 --storage 2GB/s");
  const std::int64_t bytes = alone["save"]["bytes"];
  // 124.4 M parameters x 12: the matrix that both ends hold is saved once.
  EXPECT_NEAR(static_cast<double>(bytes), 12 * 124.4e6, 12 * 0.1e6);
  for (const char* more : {" --data-parallel 4", " --data-parallel 2 --zero 3"}) {
    // Replicas write a part each of the same.
    const json split = json_of(shape + "10 --storage 2GB/s" + more);
    EXPECT_NEAR(split["save"]["bytes"].get<double>(), static_cast<double>(bytes), 64);
    EXPECT_NEAR(split["save"]["saved_ns"].get<double>(), static_cast<double>(bytes) / 2, 2e6);
  }
  // Storage at half the rate stalls for twice as long; background writing not at all.
  const json slow = json_of(shape + "10 --storage 1GB/s");
  EXPECT_GT(slow["save"]["stall_ns"].get<double>(), 1.9 * alone["save"]["stall_ns"].get<double>());
  const json beside = json_of(shape + "1 --storage 2GB/s --async-checkpoint");
  EXPECT_EQ(beside["save"]["keeps_up"], false);
  EXPECT_EQ(json_of(shape + "1000 --storage 2GB/s --async-checkpoint")["save"]["stall_ns"], 0);
}

TEST_F(SaveCommand, RefusesWhatMeansNothing) {
  refuse(pipeline + " --checkpoint-every 0", "--checkpoint-every");
  refuse(pipeline + " --storage 2GB/s",
         "--storage is only for checkpoints; give --checkpoint-every, too");
  refuse(pipeline + " --async-checkpoint", "--async-checkpoint is only for checkpoints");
  refuse(pipeline + " --checkpoint-every 2",
         "--checkpoint-every: the storage rate is missing; give --storage, such as 2GB/s");
  refuse(pipeline + " --checkpoint-every 2 --storage 2GB/s",
         "--checkpoint-every: the size of a save is missing; give --checkpoint-bytes");
  refuse(pipeline + " --checkpoint-every 2 --storage 0GB/s", "--storage");
  refuse(pipeline +
             " --checkpoint-every 2 --storage 2GB/s --checkpoint-bytes 1MB "
             "--checkpoint-copy 1GB/s",
         "--checkpoint-copy: only --async-checkpoint copies");
  write_file(folder / "saves.program",
             "pipesim-program 1\nrank 0\ncompute 0F0 0B0 0OPTIMIZER 0SAVE\n");
  refuse("--schedule " + (folder / "saves.program"), "'0SAVE' is in no program");
}

TEST_F(SaveCommand, IsAskedWhatIf) {
  run(pipeline +
      " --checkpoint-every 2 --checkpoint-bytes 4MB --storage 1GB/s --iterations 6 "
      "--quiet --trace " +
      (folder / "run.json"));
  const json rows = json::parse(run("whatif " + (folder / "run.json") +
                                    " --storage 4GB/s --checkpoint-every 4 --scale B=1 --json"));
  // Rank 1 begins 2 ms before rank 0: both together write 8 MB until 6 ms after its end.
  EXPECT_EQ(rows["as_it_ran"]["predicted_ns"], 18'000'000);
  EXPECT_EQ(rows["as_it_ran"]["makespan_ns"], 18'000'000);
  EXPECT_EQ(rows["rows"][0]["makespan_ns"], 18'000'000);
  EXPECT_EQ(rows["rows"][1]["makespan_ns"], 15'500'000);
  EXPECT_EQ(rows["rows"][2]["makespan_ns"], 16'500'000);
  run(pipeline + " --quiet --trace " + (folder / "plain.json"));
  refuse("whatif " + (folder / "plain.json") + " --storage 4GB/s", "saved no checkpoint");
}

}  // namespace
}  // namespace pipesim
