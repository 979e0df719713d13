#include "tests/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "traces/base/files.h"

namespace pipesim::testing {

Outcome run_command(const std::vector<std::string>& argv,
                    const std::vector<std::string>& environment) {
  return RunningCommand(argv, environment).outcome();
}

int status_without_readers(const std::vector<std::string>& argv) {
  const TemporaryFolder folder;
  std::vector<std::string> all{"/bin/sh", "-c",
                               "mkfifo \"$0\"; exec 3<> \"$0\" > \"$0\" 2>&1 3>&-; exec \"$@\"",
                               folder / "pipe"};
  all.insert(all.end(), argv.begin(), argv.end());
  return run_command(all).status;
}

RunningCommand::RunningCommand(const std::vector<std::string>& argv,
                               const std::vector<std::string>& environment)
    : folder_(std::make_unique<TemporaryFolder>()) {
  const std::string out = *folder_ / "out";
  const std::string err = *folder_ / "err";
  child_ = ::fork();
  if (child_ == 0) {
    const auto redirect = [](const std::string& path, int fd, int flags) {
      const int file = ::open(path.c_str(), flags, 0600);
      if (file < 0 || ::dup2(file, fd) < 0) ::_exit(126);
    };
    redirect("/dev/null", 0, O_RDONLY);
    redirect(out, 1, O_WRONLY | O_CREAT);
    redirect(err, 2, O_WRONLY | O_CREAT);
    for (const std::string& entry : environment) {
      const std::size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    std::vector<char*> arguments;
    for (const std::string& argument : argv)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
}

RunningCommand::RunningCommand(RunningCommand&& other) noexcept
    : folder_(std::move(other.folder_)), child_(std::exchange(other.child_, 0)) {}

RunningCommand::~RunningCommand() {
  if (child_ == 0) return;
  strike(SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

void RunningCommand::strike(int signal) const { ::kill(child_, signal); }

// Leaves an end to be found by outcome().
bool RunningCommand::stands_still() const {
  siginfo_t what{};
  ::waitid(P_PID, static_cast<id_t>(child_), &what, WEXITED | WSTOPPED | WNOWAIT);
  return what.si_code == CLD_STOPPED;
}

Outcome RunningCommand::outcome() {
  Outcome outcome;
  int status = 0;
  ::waitpid(std::exchange(child_, 0), &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_file(*folder_ / "out");
  outcome.err = read_file(*folder_ / "err");
  return outcome;
}

Outcome pipesim(const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment) {
  std::vector<std::string> argv{PIPESIM_COMMAND};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_command(argv, environment);
}

std::vector<std::string> advised_commands(const std::string& report) {
  std::istringstream lines(report);
  std::vector<std::string> commands;
  bool goes_on = false;
  for (std::string text; std::getline(lines, text);) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string::npos || (!goes_on && text.substr(begin, 8) != "pipesim ")) continue;
    EXPECT_LE(text.size(), 80U);
    if (!goes_on) commands.emplace_back();
    std::string& command = commands.back();
    command += text.substr(goes_on ? begin : begin + 8);
    goes_on = command.ends_with('\\');
    if (goes_on) command.pop_back();
  }
  return commands;
}

void expect_one_sentence(const Outcome& outcome, const std::string& program,
                         const std::string& line, int status, const std::string& part) {
  EXPECT_EQ(outcome.status, status) << line << "\n" << outcome.err;
  EXPECT_EQ(outcome.out, "") << line;
  EXPECT_TRUE(outcome.err.starts_with(program + ": ")) << line << "\n" << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << line << "\n" << outcome.err;
}

}  // namespace pipesim::testing
