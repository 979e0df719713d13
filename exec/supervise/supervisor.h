// The process that supervises this one's training, if it is on the same host.
// It may be killed, and leave the training behind a shell's or a launcher's back: the training
// watches it and ends, too. One owner; any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace pipesim::exec {

// The environment variable that says which process it is.
inline constexpr const char* supervisor_variable = "PIPEEXEC_SUPERVISOR";

// The value of the variable for this process: its number and when it was started.
std::string supervisor_value();

// The processes on this host that count in that progress file and whose supervisor has ended.
// Throws an input error if one has a supervisor that runs.
std::vector<pid_t> left_behind(const std::string& progress);

// Whom the variable names.
class Supervisor {
 public:
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Can be read from once the supervisor has ended; -1: there is none on this host.
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace pipesim::exec
