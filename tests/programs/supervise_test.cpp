// pipeexec supervise as a user would run it. Shell scripts called pipeexec and mpirun stand in for
// what is supervised: they die, hang and save as they are told.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;
using testing::RunningCommand;

// A folder with a script called pipeexec, and a launcher of it. Each start of pipeexec appends its
// ranks and flags to a file; $start is its number, from 1.
class Stage {
 public:
  explicit Stage(const std::string& script) {
    write_program("pipeexec",
                  "echo \"${RANKS:-none} $*\" >> '" + (folder_ / "starts") +
                      "'\n"
                      "start=$(wc -l < '" +
                      (folder_ / "starts") +
                      "')\n"
                      "folder='" +
                      folder_.path().string() +
                      "'\n"
                      // note BEGUN FINISHED ITERATION_NS
                      "note() {\n"
                      "  printf 'pipeexec-progress 1 %d %d 0 0 %d %d\\n' \"$2\" \"$1\" \"$3\" "
                      "\"$2\" > \"$PIPEEXEC_PROGRESS\"\n"
                      "}\n"
                      // Until a signal that is trapped.
                      "hang() { sleep 1000 & echo $! >> \"$folder/hung\"; wait $!; }\n" +
                      script);
    write_program("mpirun", "RANKS=$2; export RANKS; shift 2; exec \"$@\"\n");
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  // Flags of supervise, blanks between them; then what it runs.
  std::vector<std::string> words(const std::string& flags, const std::string& ranks = "") const {
    std::vector<std::string> argv{PIPEEXEC_COMMAND, "supervise"};
    std::istringstream in(flags);
    for (std::string word; in >> word;) argv.push_back(word);
    return with_command(std::move(argv), ranks);
  }
  std::vector<std::string> with_command(std::vector<std::string> argv,
                                        const std::string& ranks = "") const {
    argv.emplace_back("--");
    if (!ranks.empty()) argv.insert(argv.end(), {folder_ / "mpirun", "-n", ranks});
    argv.insert(argv.end(), {folder_ / "pipeexec", "--checkpoint", folder_ / "ck"});
    return argv;
  }

  Outcome run(const std::string& flags, const std::string& ranks = "") const {
    return testing::run_command(words(flags, ranks));
  }

  // What each start was told: its ranks, then its flags.
  std::vector<std::string> starts() const {
    std::vector<std::string> lines;
    std::istringstream in(read_file(folder_ / "starts"));
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  // Whether what hung runs no more. A signal may have come before anything did.
  bool nothing_is_left() const {
    if (!std::filesystem::exists(folder_ / "hung")) return true;
    std::istringstream in(read_file(folder_ / "hung"));
    for (pid_t id = 0; in >> id;) {
      std::ifstream file("/proc/" + std::to_string(id) + "/stat");
      std::string process;
      if (std::getline(file, process) && process.find(") Z ") == std::string::npos) return false;
    }
    return true;
  }

  Json trace() const { return Json::parse(read_file(folder_ / "trace.json")); }

  void write_program(const std::string& name, const std::string& script) const {
    write_file(folder_ / name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }

 private:
  testing::TemporaryFolder folder_;
};

// The names of the slices of a trace's track, in their order.
std::vector<std::string> names_on(const Json& trace, int track) {
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == track) names.push_back(event["name"]);
  }
  return names;
}

TEST(Supervise, RestartsWhatDies) {
  const Stage stage("echo \"start $start\"\n[ $start = 3 ] || exit 7\n");
  const Outcome outcome = stage.run("--trace " + (stage / "trace.json"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "start 1\nstart 2\nstart 3\n");
  const std::string flags = "none --checkpoint " + (stage / "ck") + " --resume " + (stage / "ck");
  EXPECT_EQ(stage.starts(), std::vector<std::string>(3, flags));
  EXPECT_NE(outcome.err.find("restart: 2 of 3 after exit status 7; 0 iterations done\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(names_on(stage.trace(), 0),
            std::vector<std::string>({"attempt 1", "attempt 2", "attempt 3"}));
  EXPECT_EQ(names_on(stage.trace(), 1), std::vector<std::string>({"restart", "restart"}));
  EXPECT_FALSE(std::filesystem::exists(stage / "ck.progress"));
}

TEST(Supervise, GivesUpWithAReason) {
  const Stage stage("note 0 12 1000\nexit 7\n");
  const Outcome outcome = stage.run("--restarts 2");
  EXPECT_EQ(outcome.status, 7);
  EXPECT_EQ(stage.starts().size(), 3U);
  EXPECT_NE(outcome.err.find("give up: exit status 7 after 2 restarts; 12 iterations done\n"),
            std::string::npos)
      << outcome.err;
  const Stage killed("kill -9 $$\n");
  const Outcome by_signal = killed.run("--restarts 0");
  EXPECT_EQ(by_signal.status, 137);
  EXPECT_NE(by_signal.err.find("give up: signal 9 (Killed) after 0 restarts"), std::string::npos)
      << by_signal.err;
}

TEST(Supervise, AWrongInputIsNotTriedAgain) {
  const Stage stage("exit 2\n");
  const Outcome outcome = stage.run("");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(stage.starts().size(), 1U);
  EXPECT_NE(outcome.err.find("give up: exit status 2: an input is wrong"), std::string::npos)
      << outcome.err;
}

// It has done three iterations, and no more: saves and ends when told. What it has started is gone,
// too.
TEST(Supervise, AHangIsEnded) {
  const Stage stage("[ $start = 1 ] || exit 0\ntrap 'exit 143' TERM\nnote 0 3 1000\nhang\n");
  const Outcome outcome = stage.run("--timeout 300ms --trace " + (stage / "trace.json"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(stage.starts().size(), 2U);
  EXPECT_NE(outcome.err.find(", after iteration 3\n"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("restart: 1 of 3 after a hang; 3 iterations done"), std::string::npos)
      << outcome.err;
  const Json trace = stage.trace();
  EXPECT_EQ(names_on(trace, 1), std::vector<std::string>({"hang", "restart"}));
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "hang") {
      EXPECT_GE(event["dur"].get<double>(), 300e3);
    } else if (event["name"] == "attempt 1") {
      EXPECT_EQ(event["args"]["ending"], "exit status 143");
    }
  }
  EXPECT_TRUE(stage.nothing_is_left());
}

TEST(Supervise, AHangThatHearsNothingIsKilled) {
  const Stage stage("[ $start = 1 ] || exit 0\ntrap '' TERM\nhang\n");
  const Outcome outcome = stage.run("--timeout 200ms --grace 50ms");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(stage.starts().size(), 2U);
  EXPECT_NE(outcome.err.find("before any iteration (does rank 0 have PIPEEXEC_PROGRESS?)"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("attempt 1 has ended: signal 9 (Killed)"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(stage.nothing_is_left());
}

// Each further iteration puts it off: all of them take longer than what counts as a hang.
TEST(Supervise, WhatGoesOnIsNoHang) {
  const Stage stage("i=0\nwhile [ $i -lt 30 ]; do i=$((i + 1)); note 0 $i 1000; sleep 0.1; done\n");
  const Outcome outcome = stage.run("--timeout 2s --restarts 0");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(stage.starts().size(), 1U);
}

// Says that it trains by opening a pipe, which waits for its reader.
const std::string says_that_it_trains = "note 0 1 1000\necho ready > \"$folder/ready\"\n";

TEST(Supervise, SignalsLetItSaveAndEnd) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const Stage stage("trap 'echo saved > \"$folder/saved\"; exit 143' TERM\n" +
                      says_that_it_trains + "hang\n");
    ASSERT_EQ(::mkfifo((stage / "ready").c_str(), 0600), 0);
    RunningCommand running(stage.words("--trace " + (stage / "trace.json")));
    EXPECT_EQ(read_file(stage / "ready"), "ready\n");
    running.strike(signal);
    const Outcome outcome = running.outcome();
    EXPECT_EQ(outcome.status, 128 + signal) << outcome.err;
    EXPECT_EQ(stage.starts().size(), 1U);
    EXPECT_EQ(read_file(stage / "saved"), "saved\n");
    EXPECT_TRUE(stage.nothing_is_left());
    EXPECT_EQ(names_on(stage.trace(), 1), std::vector<std::string>({"signal"}));
  }
}

TEST(Supervise, ASignalIsPassedOnInVain) {
  const Stage stage("trap '' TERM\n" + says_that_it_trains + "hang\n");
  ASSERT_EQ(::mkfifo((stage / "ready").c_str(), 0600), 0);
  RunningCommand running(stage.words("--grace 50ms"));
  EXPECT_EQ(read_file(stage / "ready"), "ready\n");
  running.strike(SIGTERM);
  const Outcome outcome = running.outcome();
  EXPECT_EQ(outcome.status, 143) << outcome.err;
  EXPECT_NE(outcome.err.find("attempt 1 has ended: signal 9 (Killed)"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(stage.nothing_is_left());
}

// Who types ^C twice does not wait for the grace.
TEST(Supervise, TwoInterruptsAreAHurry) {
  const Stage stage("trap 'echo told > \"$folder/told\"' TERM\n" + says_that_it_trains +
                    "while :; do hang; done\n");
  ASSERT_EQ(::mkfifo((stage / "ready").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((stage / "told").c_str(), 0600), 0);
  RunningCommand running(stage.words("--grace 1000s"));
  EXPECT_EQ(read_file(stage / "ready"), "ready\n");
  running.strike(SIGINT);
  EXPECT_EQ(read_file(stage / "told"), "told\n");
  running.strike(SIGINT);
  EXPECT_EQ(running.outcome().status, 128 + SIGINT);
  EXPECT_TRUE(stage.nothing_is_left());
}

TEST(Supervise, WhatWasDoneWhenToldToEndIsDone) {
  const Stage stage("trap 'exit 0' TERM\n" + says_that_it_trains + "hang\n");
  ASSERT_EQ(::mkfifo((stage / "ready").c_str(), 0600), 0);
  RunningCommand running(stage.words(""));
  EXPECT_EQ(read_file(stage / "ready"), "ready\n");
  running.strike(SIGTERM);
  EXPECT_EQ(running.outcome().status, 0);
}

std::vector<std::string> ranks_of_starts(const Stage& stage) {
  std::vector<std::string> ranks;
  for (const std::string& line : stage.starts()) ranks.push_back(line.substr(0, line.find(' ')));
  return ranks;
}

// Two attempts with 4 ranks get nowhere. The one with 2 does, dies once, and is tried again.
TEST(Supervise, FallsBackToFewerRanks) {
  const Stage stage(
      "[ $RANKS = 2 ] || exit 1\n"
      "note 0 $start 1000\n"
      "[ $start = 4 ] || exit 1\n");
  const Outcome outcome = testing::run_command(
      stage.with_command({PIPEEXEC_COMMAND, "supervise", "--or", "-n 2 --data-parallel 1", "--or",
                          "-n 1", "--trace", stage / "trace.json"},
                         "4"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(ranks_of_starts(stage), std::vector<std::string>({"4", "4", "2", "2"}));
  EXPECT_EQ(stage.starts()[2], "2 --checkpoint " + (stage / "ck") + " --resume " + (stage / "ck") +
                                   " --data-parallel 1");
  EXPECT_EQ(names_on(stage.trace(), 1),
            std::vector<std::string>({"restart", "fallback", "restart"}));
}

// Each attempt does one more iteration than those before.
TEST(Supervise, WhatGetsFurtherKeepsItsRanks) {
  const Stage stage("note 0 $start 1000\n[ $start = 4 ] || exit 1\n");
  const Outcome outcome = testing::run_command(
      stage.with_command({PIPEEXEC_COMMAND, "supervise", "--or", "-n 2"}, "4"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(ranks_of_starts(stage), std::vector<std::string>(4, "4"));
}

// There are 2 ranks at first, and 4 while these train.
TEST(Supervise, GrowsBack) {
  const Stage stage(
      "[ $RANKS = 4 ] && exit 0\n"
      "trap 'echo saved > \"$folder/saved\"; exit 143' TERM\n"
      "note 0 1 1000\n"
      "echo 4 > \"$folder/more\"; mv \"$folder/more\" \"$folder/ranks\"\n"
      "hang\n");
  write_file(stage / "ranks", "2\n");
  const Outcome outcome = testing::run_command(
      stage.with_command({PIPEEXEC_COMMAND, "supervise", "--or", "-n 2", "--ranks-available",
                          "cat '" + (stage / "ranks") + "'", "--grow-every", "100ms", "--restarts",
                          "0", "--trace", stage / "trace.json"},
                         "4"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(ranks_of_starts(stage), std::vector<std::string>({"2", "4"}));
  EXPECT_EQ(read_file(stage / "saved"), "saved\n");
  EXPECT_EQ(names_on(stage.trace(), 1), std::vector<std::string>({"fallback", "grow"}));
  EXPECT_TRUE(stage.nothing_is_left());
}

// First there are too few for anything.
TEST(Supervise, WaitsForRanks) {
  const Stage stage("exit 0\n");
  stage.write_program("probe",
                      "echo x >> \"$0.asked\"\nn=$(wc -l < \"$0.asked\")\n"
                      "[ $n -lt 3 ] && echo 1 || echo 3\n");
  const Outcome outcome = testing::run_command(
      stage.with_command({PIPEEXEC_COMMAND, "supervise", "--or", "-n 2", "--ranks-available",
                          stage / "probe", "--grow-every", "50ms", "--trace", stage / "trace.json"},
                         "4"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(ranks_of_starts(stage), std::vector<std::string>({"2"}));
  EXPECT_EQ(names_on(stage.trace(), 1), std::vector<std::string>({"wait", "fallback"}));
}

TEST(Supervise, RehearsesADeath) {
  const Stage stage("[ $start = 1 ] || exit 0\nhang\n");
  const Outcome outcome = stage.run("--kill-at 1s --json --trace " + (stage / "trace.json"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Json::parse(outcome.out);
  ASSERT_EQ(summary["attempts"].size(), 2U);
  EXPECT_EQ(summary["attempts"][0]["why"], "death");
  EXPECT_EQ(summary["attempts"][0]["exit_status"], 137);
  EXPECT_EQ(summary["attempts"][1]["why"], "done");
  EXPECT_EQ(summary["events"][0]["kind"], "kill");
  EXPECT_GE(summary["events"][0]["start_ns"].get<std::int64_t>(), 1'000'000'000);
  EXPECT_EQ(names_on(stage.trace(), 1), std::vector<std::string>({"kill", "restart"}));
}

// 5 iterations of 2 ms, of which 2 are lost; then from 3 to 9, of 3 ms each.
TEST(Supervise, SumsUpWhatWasOfUse) {
  const Stage stage(
      "echo hello\n"
      "[ $start = 1 ] && note 0 5 2000000 && exit 1\n"
      "note 3 9 3000000\n");
  const Outcome outcome = stage.run("--json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Json::parse(outcome.out);
  EXPECT_EQ(summary["format"], "pipeexec-supervision");
  EXPECT_EQ(summary["exit_status"], 0);
  EXPECT_EQ(summary["reason"], "done");
  EXPECT_EQ(summary["useful_iterations"], 9);
  EXPECT_EQ(summary["repeated_iterations"], 2);
  EXPECT_EQ(summary["useful_ns"], 5 * 2'000'000 + 4 * 3'000'000);
  const double wall = summary["wall_ns"];
  EXPECT_NEAR(summary["useful_fraction"].get<double>(), 22e6 / wall, 1e-3 * 22e6 / wall);
  const Json& second = summary["attempts"][1];
  EXPECT_EQ(second["begun"], 3);
  EXPECT_EQ(second["finished"], 9);
  EXPECT_EQ(second["useful_iterations"], 4);
  EXPECT_LE(summary["attempts"][0]["end_ns"].get<std::int64_t>(),
            second["start_ns"].get<std::int64_t>());
  EXPECT_NE(outcome.err.find("hello\n"), std::string::npos);  // and not between the JSON
}

// Slices of a track are one after the other or within each other, so that viewers show them.
TEST(Supervise, TracesNest) {
  const Stage stage(
      "[ $start = 3 ] && note 0 6 1000 && exit 0\n"
      "trap 'exit 143' TERM\n"
      "note 0 $start 1000\n"
      "[ $start = 2 ] && exit 9\n"
      "hang\n");
  EXPECT_EQ(stage.run("--timeout 200ms --trace " + (stage / "trace.json")).status, 0);
  const Json trace = stage.trace();
  for (const int track : {0, 1}) {
    std::vector<std::pair<double, double>> spans;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["tid"] != track) continue;
      const double start = event["ts"];
      spans.emplace_back(start, start + event["dur"].get<double>());
    }
    ASSERT_GE(spans.size(), 3U);
    for (const auto& [start, end] : spans) {
      EXPECT_LE(start, end);
      for (const auto& [other_start, other_end] : spans) {
        if (other_start <= start) continue;
        EXPECT_TRUE(other_start >= end || other_end <= end);
      }
    }
  }
}

TEST(Supervise, RefusesWithASentence) {
  const Stage stage("exit 0\n");
  const auto refuse = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin(), {PIPEEXEC_COMMAND, "supervise"});
    std::string line;
    for (const std::string& word : words) line += word + " ";
    const Outcome outcome = testing::run_command(words);
    EXPECT_EQ(outcome.status, 2) << line << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(part), std::string::npos) << line << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  };
  refuse({}, "command is required");
  refuse({"--", "mpirun", "-n", "4", "train"}, "no word of it is pipeexec");
  refuse({"--", "pipeexec", "--schedule", "1f1b"}, "give it --checkpoint DIR");
  refuse({"--", "pipeexec", "--checkpoint", "--resume", "x"}, "give it --checkpoint DIR");
  refuse({"--", "pipeexec", "--checkpoint", "a", "--resume", "b"}, "give --resume a");
  const auto with = [&](std::vector<std::string> flags, const std::string& ranks = "") {
    std::vector<std::string> words = stage.with_command(std::move(flags), ranks);
    return words;
  };
  refuse(with({"--or", ""}), "--or: it is empty");
  refuse(with({"--or", "4 ranks"}), "'4' belongs to no flag");
  refuse(with({"--or", "-n 2 --checkpoint other"}), "omit --checkpoint");
  refuse(with({"--restarts", "-1"}), "--restarts");
  refuse(with({"--timeout", "60"}), "--timeout");
  refuse(with({"--kill-at", "1s,"}), "--kill-at");
  refuse(with({"--grow-every", "1s"}), "give --ranks-available");
  refuse(with({"--grow-every", "0s", "--ranks-available", "echo 4"}), "--grow-every");
  refuse(with({"--ranks-available", "echo 4"}), "number of ranks that the command needs");
  refuse(with({"--trace", "/nowhere/trace.json"}), "/nowhere/trace.json");
  refuse(with({"--trace", std::string(300, 'x')}), "File name too long");
  refuse(with({"--progress", "/nowhere/progress"}), "/nowhere/progress");
  ASSERT_EQ(::mkfifo((stage / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {stage / "pipe", std::string("/dev/null"), stage / "."}) {
    refuse(with({"--progress", path}), "it is not a regular file");
    refuse(with({"--trace", path}), "is not a regular file, and is rewritten");
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(stage / "starts"));
  refuse(with({"--ranks-available", "echo many"}, "4"), "printed 'many' and not a number");
  refuse(with({"--ranks-available", "exit 3"}, "4"), "exit status 3");
  refuse(with({"--ranks-available", "yes"}, "4"), "printed more than 64.0 KiB, and was ended");
  refuse(with({"--ranks-available", "sleep 1000", "--timeout", "100ms"}, "4"),
         "has not ended within 100.0 ms, and was ended");
  EXPECT_FALSE(std::filesystem::exists(stage / "starts"));
}

// Neither supervise, nor what it restarts, nor a line that this prints.
TEST(Supervise, GoesOnWhenNobodyReadsItsLog) {
  const Stage stage("echo \"start $start\"\n[ $start = 3 ] || exit 7\n");
  EXPECT_EQ(testing::status_without_readers(stage.words("--trace " + (stage / "trace.json"))), 0);
  EXPECT_EQ(stage.starts().size(), 3U);
  EXPECT_EQ(names_on(stage.trace(), 0),
            std::vector<std::string>({"attempt 1", "attempt 2", "attempt 3"}));
}

// A script that hears no signal stands between it and the rank. Whoever runs holds the pipe open.
TEST(Supervise, RanksEndWhenItIsKilled) {
  const Stage stage("");
  ASSERT_EQ(::mkfifo((stage / "log").c_str(), 0600), 0);
  RunningCommand running(
      {"/bin/sh", "-c",
       "exec " PIPEEXEC_COMMAND
       " supervise -- /bin/sh -c 'trap \"\" TERM; \"$@\"; :' sh " PIPEEXEC_COMMAND
       " --schedule 1f1b --stages 2 --microbatches 2 --micro-batch-size 1 --sequence-length 8 "
       "--iterations 100000 --checkpoint-every 5 --keep 1 --checkpoint '" +
           (stage / "ck") + "' > '" + (stage / "log") + "' 2>&1"});
  std::ifstream log(stage / "log");
  while (!std::filesystem::exists(stage / "ck/latest")) std::this_thread::yield();
  running.strike(SIGKILL);
  const std::string said((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
  EXPECT_NE(said.find("pipeexec: stopped by signal 15 after iteration "), std::string::npos)
      << said;
}

// What hangs hears nothing, and notices nothing.
TEST(Supervise, EndsWhatAKilledOneHasLeft) {
  const Stage stage("[ $start = 1 ] || exit 0\ntrap '' TERM\n" + says_that_it_trains +
                    "while :; do hang; done\n");
  ASSERT_EQ(::mkfifo((stage / "ready").c_str(), 0600), 0);
  RunningCommand running(stage.words(""));
  EXPECT_EQ(read_file(stage / "ready"), "ready\n");
  const Outcome refused = stage.run("");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("supervises this training already"), std::string::npos) << refused.err;
  running.strike(SIGKILL);
  EXPECT_EQ(running.outcome().status, 137);
  const Outcome next = stage.run("--grace 50ms");
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_NE(next.err.find("of a supervisor that was killed"), std::string::npos) << next.err;
  EXPECT_TRUE(stage.nothing_is_left());
}

TEST(Supervise, SaysWhatCannotBeRun) {
  const testing::TemporaryFolder folder;
  const Outcome outcome =
      testing::run_command({PIPEEXEC_COMMAND, "supervise", "--", folder / "nothing", "pipeexec",
                            "--checkpoint", folder / "ck"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("cannot run"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("No such file or directory"), std::string::npos) << outcome.err;
}

TEST(Supervise, OneIsEnough) {
  const Stage stage("exit 0\n");
  const Outcome outcome =
      testing::run_command(stage.words(""), {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("has started 4 of supervise"), std::string::npos) << outcome.err;
}

TEST(Supervise, HelpFits80Columns) {
  const Outcome help = testing::run_command({PIPEEXEC_COMMAND, "supervise", "--help"});
  EXPECT_EQ(help.status, 0);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

// What the real one counts.
TEST(Supervise, PipeexecCountsItsIterations) {
  const testing::TemporaryFolder folder;
  std::istringstream in(
      "--schedule 1f1b --stages 2 --microbatches 2 --micro-batch-size 1 --sequence-length 8 "
      "--iterations 3 --warmup 1 --quiet");
  std::vector<std::string> argv{PIPEEXEC_COMMAND};
  for (std::string word; in >> word;) argv.push_back(word);
  EXPECT_EQ(testing::run_command(argv, {"PIPEEXEC_PROGRESS=" + (folder / "p")}).status, 0);
  EXPECT_TRUE(read_file(folder / "p").starts_with("pipeexec-progress 1 4 0 "));
  const Outcome refused = testing::run_command(argv, {"PIPEEXEC_PROGRESS=/nowhere/p"});
  testing::expect_one_sentence(refused, "pipeexec", "PIPEEXEC_PROGRESS=/nowhere/p", 2,
                               "name a file that can be written");
}

}  // namespace
}  // namespace pipesim
