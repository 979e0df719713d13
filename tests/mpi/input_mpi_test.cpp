// Input pipelines with ranks as the processes of an MPI job.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/files.h"
#include "tests/mpi/mpirun.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::mpirun;
using testing::Outcome;
using testing::TemporaryFolder;

Outcome run_on(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{PIPEEXEC_COMMAND, "--batches", "5"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return mpirun(ranks, argv);
}

TEST(InputMpi, EveryProgramGivesTheBitsOfOneRank) {
  for (const char* program :
       {"base", "sparse-dist", "lite", "fused", "semi-sync", "prefetch", "staged"}) {
    const Outcome outcome =
        run_on(3, {"--input-pipeline", program, "--batch-size", "16", "--verify", "--json",
                   "--accumulate", "2", "--evaluate", "1"});
    ASSERT_EQ(outcome.status, 0) << program << "\n" << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["transport"], "mpi");
    EXPECT_EQ(json["ranks"].size(), 3);
    EXPECT_EQ(json["verify"]["bitwise"], true) << program;
  }
}

// Messages that don't fit next to their sizes; none is taken before it is asked for.
TEST(InputMpi, LargeBatchesGiveThem) {
  const Outcome outcome = run_on(2, {"--input-pipeline", "sparse-dist", "--batch-size", "2048",
                                     "--verify", "--json", "--eager-limit", "0"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["verify"]["bitwise"], true);
}

TEST(InputMpi, EmulatesLinksOfOneRankEach) {
  const TemporaryFolder folder;
  const std::string costs = folder / "costs.json";
  const auto write = [&](const std::string& links) {
    write_file(costs, R"({"format": "pipesim-costs", "version": 1, "ranks": 2,
      "links": [{"name": "a", "bandwidth_bytes_per_s": 1000000000},
                {"name": "b", "bandwidth_bytes_per_s": 1000000000}],
      "work": {"IDS": [{"bytes": 1000000, "links": ["a"]}, {"bytes": 1000000, "links": )" +
                          links + "}]}}");
  };
  const std::vector<std::string> arguments{"--input-pipeline", "base", "--device", "emulated",
                                           "--costs",          costs,  "--json"};
  write(R"(["b"])");
  const Outcome outcome = run_on(2, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const Json& rank : Json::parse(outcome.out)["ranks"]) {
    EXPECT_GE(rank["total_ns"]["IDS"], 5'000'000);
  }
  write(R"(["a"])");
  const Outcome refused = run_on(2, arguments);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("link 'a' is shared by ranks 0 and 1"), std::string::npos)
      << refused.err;
}

// What is wrong is said once, by rank 0.
TEST(InputMpi, RefusesInOneSentence) {
  for (const auto& [arguments, part] :
       {std::pair<std::vector<std::string>, std::string>{
            {"--input-pipeline", "base", "--ranks", "3"},
            "pipeexec: --ranks: only --transport tcp is told its ranks; that of this run is mpi\n"},
        {{"--input-pipeline", "base", "--batch-size", "0"},
         "pipeexec: --batch-size: 0 must be 1 or more\n"},
        {{"--input-pipeline", "base", "--transport", "local"},
         "pipeexec: --transport local: ranks are threads of one process, but a launcher has "
         "started 3 processes; start pipeexec by itself, with --ranks P\n"}}) {
    const Outcome outcome = run_on(3, arguments);
    EXPECT_EQ(outcome.status, 2) << part;
    EXPECT_EQ(outcome.out, "") << part;
    const std::size_t at = outcome.err.find(part);
    ASSERT_NE(at, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("pipeexec: ", at + 1), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace pipesim
