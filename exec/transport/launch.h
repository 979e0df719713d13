// Who a process is among those that a launcher has started, as the environment tells it.
//
// Pure functions of the environment that they are given; values.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "exec/transport/tcp.h"

namespace pipesim::exec {

// The value of a variable, or null where it isn't set: std::getenv, or a test's.
using Environment = std::function<const char*(const char* name)>;

struct Launch {
  std::string launcher;  // mpirun, torchrun or srun
  int rank = 0;
  int ranks = 1;
  std::optional<int> local_rank;  // among those of its host, where that is told
};

// By the first of these that there is: mpirun's variables (of Open MPI, of MPICH and those
// made from it), torchrun's, srun's: so the one that is started by another comes first. The
// script of a Slurm job is no rank. An input error where a number is none.
std::optional<Launch> find_launch(const Environment& environment);

// Where rank 0 listens, by MASTER_ADDR and MASTER_PORT; nothing where one isn't set. Where
// torchrun itself listens at that port, the next one.
struct Master {
  std::string host;
  std::uint16_t port = 0;
};
std::optional<Master> find_master(const Environment& environment);

// "node1:29500", "[::1]:29500"; `where` names what says so in the error.
Master parse_master(std::string_view text, std::string_view where);

}  // namespace pipesim::exec
