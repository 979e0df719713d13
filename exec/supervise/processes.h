// Processes that this one has started, and all that those have started in turn.
//
// One object a process, which changes what becomes of orphans and blocks the signals it awaits;
// its children get neither. One thread: the main one, since a child ends when the thread that
// started it does.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipesim::exec {

// How a process has ended.
struct Ending {
  int status = 0;
  int signal = 0;  // that has ended it, or 0

  bool went_well() const { return status == 0 && signal == 0; }
  // As a shell has it: 128 and the signal.
  int exit_status() const { return signal != 0 ? 128 + signal : status; }
  std::string text() const;  // "exit status 1", "signal 9 (Killed)"
};

struct RunningProcess {
  pid_t id = 0;
  pid_t parent = 0;
  std::string name;  // of its program, the first 15 bytes
};

struct ProcessStart {
  std::vector<std::string> words;  // its program, found by PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> environment = {};  // beside ours
  int output = -1;  // a file that takes the place of its standard output
};

class Processes {
 public:
  // From now on the signals that end a process, but for those that are ignored, SIGUSR1 and
  // SIGCHLD are for wait() to take; and orphans of what is started become children of this
  // process, so that none is lost.
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Runs a program in a process group of its own, without input. It gets SIGTERM where this
  // process ends before it. An input error where it can't be run.
  pid_t start(const ProcessStart& what);

  // Until a child has ended or a signal has come, or so long; the signal, where it asks this
  // process to end.
  std::optional<int> wait(std::int64_t at_most_ns);

  // How one that was started has ended; nothing while it runs.
  std::optional<Ending> ending_of(pid_t id);

  // Those that one has started, and theirs, in no order; itself first. Without those that have
  // ended.
  static std::vector<RunningProcess> tree_of(pid_t id);

  // Kills all that was started, and what these have started, and waits for their ends: at most so
  // long. How many have not ended by then. Signals that come meanwhile are kept for wait().
  std::size_t kill_all(std::int64_t at_most_ns);

 private:
  void reap();

  sigset_t awaited_{};
  sigset_t before_{};
  std::map<pid_t, std::optional<Ending>> started_;
};

}  // namespace pipesim::exec
