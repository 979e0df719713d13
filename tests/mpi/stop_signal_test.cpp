// Trainings that do little but matrix products, in threads and in processes that MPI or TCP
// connects, are told at random moments to stop: each saves, ends with the signal's status, and goes
// on from there.
//
// PIPESIM_SIGNAL_TRIALS says how many; each is made of its number alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/exec_calls.h"
#include "tests/files.h"
#include "tests/mpi/mpirun.h"
#include "tests/tcp_world.h"

namespace pipesim {
namespace {

using testing::Outcome;
using testing::RunningCommand;
using testing::TemporaryFolder;

constexpr const char* all_products =
    R"({"format": "pipesim-model", "version": 1, "architecture": "mlp", "blocks": 4,
        "hidden_size": 128, "vocabulary_size": 256, "max_sequence_length": 64})";

// The outcomes of the processes, rank 0's or its launcher's first. The environment is of one rank
// if each has its own.
std::vector<Outcome> run_ranks(const std::string& transport, const std::string& line,
                               const std::vector<std::string>& environment, int struck = 0) {
  std::vector<Outcome> outcomes;
  if (transport == "tcp") {
    const testing::ReservedPort port;
    std::vector<RunningCommand> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back(
          testing::pipeexec_argv(fmt::format("{} --transport tcp --ranks 2 --rank {} --master {}",
                                             line, rank, port.master())),
          rank == struck ? environment : std::vector<std::string>{});
    }
    for (RunningCommand& rank : ranks) outcomes.push_back(rank.outcome());
  } else if (transport == "mpi") {
    std::vector<std::string> argv{"/usr/bin/env"};
    argv.insert(argv.end(), environment.begin(), environment.end());
    for (const std::string& word : testing::pipeexec_argv(line)) argv.push_back(word);
    outcomes.push_back(testing::mpirun(2, argv));
  } else {
    outcomes.push_back(testing::pipeexec(line + " --transport local --stages 2", environment));
  }
  return outcomes;
}

int trials() {
  const char* asked = std::getenv("PIPESIM_SIGNAL_TRIALS");
  return asked == nullptr ? 6 : std::atoi(asked);
}

TEST(StopSignal, SavesWhateverIsComputed) {
  const TemporaryFolder models;
  write_file(models / "model.json", all_products);
  for (int trial = 0; trial < trials(); ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    const auto pick = [&](int least, int most) {
      return std::uniform_int_distribution(least, most)(random);
    };
    const std::vector<std::string> transports{"local", "mpi", "tcp"};
    const std::string& transport = transports[static_cast<std::size_t>(trial) % 3];
    const bool is_term = pick(0, 1) == 0;
    const int status = 128 + (is_term ? SIGTERM : SIGUSR1);
    // Rank 0 writes files while it trains; another looks at the clock alone.
    const int struck = transport == "tcp" ? pick(0, 1) : 0;
    const int moment = struck == 0 ? pick(1, 300'000) : pick(100, 5000);
    const std::string story = fmt::format("trial {}: {}, {} on rank {} after {} {}", trial,
                                          transport, is_term ? "SIGTERM" : "SIGUSR1", struck,
                                          moment, struck == 0 ? "us" : "looks at the clock");
    const TemporaryFolder folder;
    const std::string saved = folder / "ck";
    const std::string line = fmt::format(
        "--model {} --schedule 1f1b --microbatches 4 --micro-batch-size 4 --warmup 0 --checkpoint "
        "{} --keep 1 --timeout 60s --checkpoint-every ",
        models / "model.json", saved);
    const std::vector<Outcome> stopped = run_ranks(
        transport, line + "1000000 --iterations 1000000 --quiet",
        {"LD_PRELOAD=" PIPESIM_FAILING_DISK, is_term ? "PIPESIM_FAULT=term" : "PIPESIM_FAULT=usr1",
         struck == 0 ? "PIPESIM_FAULT_ON=timer" : "PIPESIM_FAULT_ON=clock",
         fmt::format("PIPESIM_FAULT_AT={}", moment),
         "PIPESIM_FAULT_FOLDER=" + models.path().string(), "PIPEEXEC_PROGRESS=" + (models / "p")},
        struck);
    for (const Outcome& rank : stopped) EXPECT_EQ(rank.status, status) << story << "\n" << rank.err;
    const std::string& said = stopped.front().err;
    const std::size_t at = said.find(" after iteration ");
    ASSERT_NE(at, std::string::npos) << story << "\n" << said;
    const int done = std::atoi(said.c_str() + at + 17);
    const std::vector<Outcome> rest = run_ranks(
        transport, fmt::format("{}1000 --resume {} --iterations {} --json", line, saved, done + 1),
        {});
    ASSERT_EQ(rest.front().status, 0) << story << "\n" << rest.front().err;
    const auto json = nlohmann::json::parse(rest.front().out);
    EXPECT_EQ(json["resumed_at"], done) << story;
    EXPECT_EQ(json["losses"].size(), static_cast<std::size_t>(done) + 1) << story;
  }
}

}  // namespace
}  // namespace pipesim
