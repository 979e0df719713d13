// `pipesim schedule receives` and `schedule lower --receives`, as a user drives them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using namespace testing;

const std::vector<std::string> places{"sender",  "just-in-time", "early",
                                      "batched", "timed",        "edge"};
const std::vector<std::string> modes{"async", "blocking", "fifo", "edge-fifo"};
const std::string shape = "1f1b --stages 4 --microbatches 8";

// What of it needs costs, the comparison writes.
std::string lowered_to(const TemporaryFolder& folder, const std::string& flags,
                       const std::string& place, const std::string& costs = "") {
  const std::string file = folder / (place + (place == "edge" ? ".program" : ".csv"));
  const std::string verb = place == "timed" ? "receives " : "lower ";
  const Outcome written = call("schedule " + verb + flags + " --receives " + place + " -o " + file +
                               (place == "timed" ? costs : ""));
  EXPECT_EQ(written.status, 0) << written.err;
  return file;
}

// What is said of a choice, its file says when it is predicted: the same time, or that it
// deadlocks, with the same cycle.
TEST(ReceivesCli, SaysWhatItsFilesDo) {
  const TemporaryFolder folder;
  const std::string costs =
      " --forward 2ms --backward 3ms --p2p-latency 300us --p2p-bytes 1MB --p2p-bandwidth 2GB/s";
  for (const std::string eager : {"", " --eager-limit 2MB"}) {
    const Json all = json_of("schedule receives " + shape + costs + eager);
    EXPECT_EQ(all["format"], "pipesim-receives");
    EXPECT_EQ(all["schedule"], "1f1b");
    ASSERT_EQ(all["choices"].size(), places.size());
    int deadlocks = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Json& choice = all["choices"][i];
      EXPECT_EQ(choice["receives"], places[i]);
      const std::string file = lowered_to(folder, shape, places[i], costs);
      for (const std::string& mode : modes) {
        const std::string line = "--schedule " + file + " --p2p " + mode + costs + eager;
        if (places[i] == "edge" && mode != "edge-fifo") {
          EXPECT_FALSE(choice["transports"].contains(mode));
          continue;
        }
        const Json& outcome = choice["transports"][mode];
        if (outcome["cycle"].is_null()) {
          EXPECT_EQ(json_of(line)["makespan_ns"], outcome["makespan_ns"]) << line;
        } else {
          EXPECT_EQ(call(line).err,
                    "pipesim: " + file + ": " + outcome["cycle"].get<std::string>() + "\n");
          EXPECT_TRUE(outcome["makespan_ns"].is_null());
          ++deadlocks;
        }
      }
    }
    EXPECT_GT(deadlocks, 0);
  }
}

TEST(ReceivesCli, TheVerdictComesFirst) {
  const std::string line = "schedule receives " + shape + " --p2p-latency 300us";
  const Json all = json_of(line);
  const std::string text = output_of(line);
  const std::string told = unwrapped(text);
  EXPECT_TRUE(text.starts_with("1F1B, 4 stages, 8 microbatches: ")) << text;
  EXPECT_NE(told.find("a posted receive delays nothing"), std::string::npos) << text;
  for (const int columns : {80, 200}) {
    std::istringstream lines(output_of(line, {"COLUMNS=" + std::to_string(columns)}));
    for (std::string one; std::getline(lines, one);) {
      EXPECT_LE(one.size(), static_cast<std::size_t>(columns)) << one;
    }
  }
  const std::map<std::string, Json> fastest = all["fastest"];
  EXPECT_EQ(fastest.at("async"), "sender");
  for (const auto& [mode, name] : fastest) {
    if (name != "sender") {
      EXPECT_NE(told.find(name.get<std::string>() + " gains "), std::string::npos) << text;
    }
  }
  // Those of one choice in full, and besides only what it is compared with.
  const std::string one = output_of(line + " --receives just-in-time");
  EXPECT_NE(one.find("sender"), std::string::npos);
  EXPECT_EQ(one.find("batched"), std::string::npos) << one;
  const Json late = json_of(line + " --receives just-in-time --p2p fifo")["choices"][1];
  const std::string cycle = late["transports"]["fifo"]["cycle"];
  EXPECT_NE(unwrapped(one).find(cycle.substr(cycle.find(": ") + 2)), std::string::npos) << one;
  // What it advises writes what it says.
  int advised = 0;
  for (const std::string& command : advised_commands(text)) {
    const TemporaryFolder folder;
    const std::string file = folder / "p.csv";
    EXPECT_EQ(call(command.substr(0, command.find(" -o ")) + " -o " + file).status, 0) << command;
    for (const std::string mode : {"blocking", "fifo"}) {
      const std::string name = fastest.at(mode);
      if (command.find("--receives " + name + " ") == std::string::npos) continue;
      const Json predicted =
          json_of("--schedule " + file + " --p2p " + mode + " --p2p-latency 300us");
      const auto is_it = [&](const Json& choice) { return choice["receives"] == name; };
      const Json choice = *std::ranges::find_if(all["choices"], is_it);
      EXPECT_EQ(predicted["makespan_ns"], choice["transports"][mode]["makespan_ns"]) << command;
      ++advised;
    }
  }
  EXPECT_EQ(advised, 2);
}

// A program is held against how it is written.
TEST(ReceivesCli, OfAProgramThatDeadlocks) {
  const std::string file = golden("recv_before_consumer_deadlocks.csv");
  const Json all = json_of("schedule receives " + file);
  ASSERT_EQ(all["choices"].size(), places.size() + 1);
  EXPECT_EQ(all["choices"][0]["receives"], "as written");
  EXPECT_EQ(all["choices"][0]["transports"], all["choices"][2]["transports"]);
  EXPECT_FALSE(all["choices"][0]["transports"]["fifo"]["cycle"].is_null());
  EXPECT_TRUE(all["choices"][1]["transports"]["fifo"]["cycle"].is_null());
  const std::string told = unwrapped(output_of("schedule receives " + file));
  EXPECT_NE(told.find("runs on blocking in "), std::string::npos) << told;
  EXPECT_NE(told.find("where as written does not"), std::string::npos) << told;
  // Its transfers are placed anew where it is asked for.
  EXPECT_EQ(call("schedule lower " + file + " --receives just-in-time").out,
            call("schedule convert " + file).out);
}

TEST(ReceivesCli, FilesTrain) {
  const TemporaryFolder folder;
  for (const std::string& place : places) {
    const std::string file = lowered_to(folder, "interleaved --stages 2 --microbatches 4", place);
    const Outcome run = run_command(
        {PIPEEXEC_COMMAND, "--schedule", file, "--transport", "local", "--verify", "--iterations",
         "1", "--warmup", "0", "--micro-batch-size", "1", "--sequence-length", "8", "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(Json::parse(run.out)["verify"]["bitwise"], true) << place;
  }
  // Before it starts.
  const std::string stuck = folder / "stuck.csv";
  write_file(stuck,
             "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
             "1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0\n");
  const Outcome run = run_command({PIPEEXEC_COMMAND, "--schedule", stuck, "--transport", "local"});
  expect_one_sentence(run, "pipeexec", stuck, 2,
                      "deadlock: 0RECV_B0 on rank 0 waits for 1SEND_B0, which comes after "
                      "1RECV_F1 on rank 1; 1RECV_F1 on rank 1 waits for 0SEND_F1");
}

TEST(ReceivesCli, RefusesInOneSentence) {
  const auto refused = [&](const std::string& line, const std::string& part) {
    expect_one_sentence(call(line), "pipesim", line, 2, part);
  };
  refused("schedule lower " + shape + " --receives late", "unknown place of receives 'late'");
  refused("schedule lower " + shape + " --receive-buffers 2",
          "only --receives early has them, not sender");
  refused("schedule lower " + shape + " --receives early --receive-buffers 0",
          "--receive-buffers: ");
  refused("schedule lower " + shape + " --receives timed", "needs costs");
  refused("schedule receives " + shape + " -o out.csv", "give --receives");
  refused("schedule receives " + shape + " --receives batched --receive-buffers 2",
          "only --receives early has them, not batched");
  refused("schedule receives " + shape + " --p2p tcp", "unknown p2p mode 'tcp'");
  refused("schedule receives", "schedule");
  refused("schedule receives 1f1b --stages 4", "--microbatches is missing");
  refused("schedule receives interleaved --stages 8 --microbatches 12", "deadlock");
}

}  // namespace
}  // namespace pipesim
