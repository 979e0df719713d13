// Starts a program as the ranks of an MPI job; only in builds with MPI.
#pragma once

#include <string>
#include <vector>

#include "tests/command.h"

namespace pipesim::testing {

// As run_command(), on so many ranks, more than there are cores if need be.
Outcome mpirun(int ranks, const std::vector<std::string>& argv,
               const std::vector<std::string>& environment = {});

}  // namespace pipesim::testing
