// Runs a command as a user would, and keeps what it printed.
#pragma once

#include <string>
#include <vector>

namespace pipesim::testing {

struct Outcome {
  int status = -1;  // exit status; 128 + signal where one ended it
  std::string out;
  std::string err;
};

// argv[0] is the program; `environment` holds "NAME=value" on top of ours.
Outcome run_command(const std::vector<std::string>& argv,
                    const std::vector<std::string>& environment = {});

// The pipesim of this build.
Outcome pipesim(const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment = {});

}  // namespace pipesim::testing
