#include "tests/mpi/mpirun.h"

#include <unistd.h>

namespace pipesim::testing {

Outcome mpirun(int ranks, const std::vector<std::string>& argv,
               const std::vector<std::string>& environment) {
  std::vector<std::string> command{PIPESIM_MPIEXEC, "--oversubscribe", "-n", std::to_string(ranks)};
  command.insert(command.end(), argv.begin(), argv.end());
  std::vector<std::string> variables = environment;
  if (::geteuid() == 0) {  // which Open MPI takes for a mistake
    variables.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    variables.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  return run_command(command, variables);
}

}  // namespace pipesim::testing
