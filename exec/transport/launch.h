// A process's rank among those that a launcher has started, from the environment.
// Pure functions of the given environment; values.
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
  std::optional<int> local_rank;  // among those on its host, if known
};

// From the first of these that are set: mpirun's variables (of Open MPI, of MPICH and its
// derivatives), torchrun's, srun's: so the innermost launcher comes first. The script of a Slurm
// job is not a rank. Throws an input error for an invalid number.
std::optional<Launch> find_launch(const Environment& environment);

// Where rank 0 listens, from MASTER_ADDR and MASTER_PORT; nothing if one isn't set. If torchrun
// itself listens on that port, the next one.
struct Master {
  std::string host;
  std::uint16_t port = 0;
};
std::optional<Master> find_master(const Environment& environment);

// The token of a job, which only its ranks know: PIPEEXEC_TOKEN; or else what the launcher calls
// the job, which others may find out, but don't give by mistake; or else empty.
std::string find_token(const Environment& environment, const std::optional<Launch>& launch);

// Throws an input error unless it can be one; `where` names the source.
std::string parse_token(std::string_view text, std::string_view where);

// "node1:29500", "[::1]:29500"; `where` names the source in an error.
Master parse_master(std::string_view text, std::string_view where);

}  // namespace pipesim::exec
