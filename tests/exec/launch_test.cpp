// Which rank a process is, by the variables that launchers set.
#include "exec/transport/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/errors.h"

namespace pipesim {
namespace {

using exec::find_launch;
using exec::find_master;
using exec::find_token;
using exec::parse_master;
using exec::parse_token;
using testing::error_of;

using Variables = std::map<std::string, std::string>;

exec::Environment of(const Variables& variables) {
  return [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// "mpirun 1 of 4, local 0".
std::string told_by(const Variables& variables) {
  const auto launch = find_launch(of(variables));
  if (!launch) return "none";
  return launch->launcher + " " + std::to_string(launch->rank) + " of " +
         std::to_string(launch->ranks) +
         (launch->local_rank ? ", local " + std::to_string(*launch->local_rank) : "");
}

const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
const Variables torchrun{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"MASTER_ADDR", "node1"},
                         {"MASTER_PORT", "29500"}};
const Variables step{{"SLURM_JOB_ID", "77"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "2"},
                     {"SLURM_NTASKS", "3"},
                     {"SLURM_LOCALID", "2"}};

Variables together(Variables all, const Variables& more) {
  all.insert(more.begin(), more.end());
  return all;
}

TEST(Launch, IsToldByEachLauncher) {
  EXPECT_EQ(told_by({}), "none");
  EXPECT_EQ(told_by(open_mpi), "mpirun 1 of 4, local 0");
  EXPECT_EQ(told_by(torchrun), "torchrun 5 of 8, local 1");
  EXPECT_EQ(told_by(step), "srun 2 of 3, local 2");
  EXPECT_EQ(told_by({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "mpirun 1 of 2");
  EXPECT_EQ(told_by({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}),
            "mpirun 1 of 2, local 1");
  EXPECT_EQ(told_by({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}), "srun 0 of 2");
}

// mpirun and torchrun are often started by srun, once a host.
TEST(Launch, IsThatOfTheInnerLauncher) {
  EXPECT_EQ(told_by(together(open_mpi, step)), "mpirun 1 of 4, local 0");
  EXPECT_EQ(told_by(together(torchrun, step)), "torchrun 5 of 8, local 1");
  EXPECT_EQ(told_by(together(open_mpi, torchrun)), "mpirun 1 of 4, local 0");
  // srun tells MPICH as mpirun does, and mpirun may have one host's step.
  const Variables pmi{{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}};
  EXPECT_EQ(told_by(together(pmi, step)), "srun 2 of 3, local 2");
  EXPECT_EQ(told_by(together({{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}, step)), "mpirun 5 of 6");
}

TEST(Launch, IsNoneOfAJobsScript) {
  Variables script = step;
  script.erase("SLURM_STEP_ID");
  EXPECT_EQ(told_by(script), "none");
}

TEST(Launch, NeedsBothNumbers) {
  EXPECT_EQ(told_by({{"RANK", "1"}}), "none");
  EXPECT_EQ(told_by({{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}), "none");
  EXPECT_EQ(error_of([] {
              told_by({{"RANK", "one"}, {"WORLD_SIZE", "2"}});
            }),
            "the environment's RANK is 'one', not a whole number from 0");
  EXPECT_EQ(error_of([] {
              told_by({{"RANK", "1"}, {"WORLD_SIZE", "0"}});
            }),
            "the environment's WORLD_SIZE is '0', not a whole number from 1");
  EXPECT_EQ(error_of([] {
              told_by({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
            }),
            "the environment's RANK is 2 and its WORLD_SIZE 2; ranks count from 0");
}

TEST(Launch, TheMasterIsToldByTheEnvironment) {
  EXPECT_FALSE(find_master(of({})).has_value());
  EXPECT_FALSE(find_master(of({{"MASTER_ADDR", "node1"}})).has_value());
  const auto master = find_master(of(torchrun));
  EXPECT_EQ(master->host, "node1");
  EXPECT_EQ(master->port, 29'500);
  // torchrun listens there itself.
  const Variables agent = together({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, torchrun);
  EXPECT_EQ(find_master(of(agent))->port, 29'501);
  EXPECT_EQ(error_of([&] {
              find_master(of({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "99999"}}));
            }),
            "the environment's MASTER_PORT is '99999', not a whole number from 1");
}

TEST(Launch, TheMasterIsAHostAndAPort) {
  EXPECT_EQ(parse_master("node1:29500", "--master").host, "node1");
  EXPECT_EQ(parse_master("node1:29500", "--master").port, 29'500);
  EXPECT_EQ(parse_master("[fe80::1]:80", "--master").host, "fe80::1");
  for (const char* wrong : {"", "node1", ":80", "node1:", "node1:0", "node1:65536", "node1:8x"}) {
    EXPECT_EQ(error_of([&] { parse_master(wrong, "--master"); }),
              "--master: '" + std::string(wrong) + "' is not HOST:PORT, such as node1:29500");
  }
}

// What one gives counts, else what the launcher calls the job.
TEST(Launch, TheTokenIsThatOfTheJob) {
  const auto token = [](Variables variables, const Variables& more) {
    variables.insert(more.begin(), more.end());
    return find_token(of(variables), find_launch(of(variables)));
  };
  const Variables names{{"PMIX_NAMESPACE", "4711"},
                        {"TORCHELASTIC_RUN_ID", "train-7"},
                        {"SLURM_JOB_ID", "12"},
                        {"SLURM_STEP_ID", "3"}};
  EXPECT_EQ(token(open_mpi, names), "4711");
  EXPECT_EQ(token(torchrun, names), "train-7");
  EXPECT_EQ(token({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}, names), "12.3");
  EXPECT_EQ(token({}, names), "");
  EXPECT_EQ(token(torchrun, {{"TORCHELASTIC_RUN_ID", "none"}}), "");  // its default
  EXPECT_EQ(token(torchrun, {{"TORCHELASTIC_RUN_ID", std::string(99, 'x') + "7"}}),
            std::string(63, 'x') + "7");
  Variables own = names;
  own["PIPEEXEC_TOKEN"] = "secret";
  EXPECT_EQ(token(torchrun, own), "secret");
  EXPECT_EQ(token({}, own), "secret");
  EXPECT_EQ(error_of([&] {
              token({}, {{"PIPEEXEC_TOKEN", ""}});
            }),
            "the environment's PIPEEXEC_TOKEN: a token has 1 to 64 characters, this one 0");
  EXPECT_EQ(error_of([] { parse_token(std::string(65, 'x'), "--token"); }),
            "--token: a token has 1 to 64 characters, this one 65");
}

}  // namespace
}  // namespace pipesim
