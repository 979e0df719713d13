// Runs a command as a user would, and keeps what it printed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/files.h"

namespace pipesim::testing {

struct Outcome {
  int status = -1;  // exit status; 128 + signal where one ended it
  std::string out;
  std::string err;
};

// argv[0] is the program; `environment` holds "NAME=value" on top of ours.
Outcome run_command(const std::vector<std::string>& argv,
                    const std::vector<std::string>& environment = {});

// Its exit status where its standard output and error are pipes that nobody reads any more.
int status_without_readers(const std::vector<std::string>& argv);

// The same of a command that runs meanwhile; it is killed where nobody awaits its end.
class RunningCommand {
 public:
  RunningCommand(const std::vector<std::string>& argv,
                 const std::vector<std::string>& environment = {});
  ~RunningCommand();
  RunningCommand(RunningCommand&& other) noexcept;

  void strike(int signal) const;
  // Waits until it has ended or a signal has stopped it; whether it stands still then.
  bool stands_still() const;
  Outcome outcome();  // once it has ended; called once

 private:
  std::unique_ptr<TemporaryFolder> folder_;  // of what it prints
  pid_t child_;
};

// The pipesim of this build.
Outcome pipesim(const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment = {});

// What a report of pipesim advises to run, without the program's name: the commands that stand
// on lines of their own, each of which goes on behind a backslash. Expects 80 columns at most.
std::vector<std::string> advised_commands(const std::string& report);

// Expects nothing on standard output and one line on standard error, which
// starts with the program's name and holds `part`. `line` is what was typed.
void expect_one_sentence(const Outcome& outcome, const std::string& program,
                         const std::string& line, int status, const std::string& part);

}  // namespace pipesim::testing
