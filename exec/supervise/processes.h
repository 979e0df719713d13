// Processes started by this one, and all their descendants.
// At most one object per process: it becomes a subreaper of orphans and blocks the signals it
// awaits; its children inherit neither. One thread: the main one, since a child ends when the
// thread that started it does.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipesim::exec {

// How a process ended.
struct Ending {
  int status = 0;
  int signal = 0;  // that ended it, or 0

  bool went_well() const { return status == 0 && signal == 0; }
  // As in a shell: 128 plus the signal.
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
  std::vector<std::pair<std::string, std::string>> environment = {};  // in addition to ours
  int output = -1;  // a file that replaces its standard output
};

class Processes {
 public:
  // From now on wait() takes the signals that end a process, except ignored ones, SIGUSR1 and
  // SIGCHLD; and orphans of started processes become children of this process, so that none is
  // lost.
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Runs a program in its own process group, without input; what it prints to a pipe without a
  // reader is lost. It gets SIGTERM if this process ends before it. Throws an input error if it
  // can't be run.
  pid_t start(const ProcessStart& what);

  // Waits until a child has ended or a signal has arrived, or the time is over; returns the signal,
  // if it asks this process to end.
  std::optional<int> wait(std::int64_t at_most_ns);

  // How a started process ended; nothing while it runs.
  std::optional<Ending> ending_of(pid_t id);

  // All that run on this host; those that end meanwhile may be missing.
  static std::vector<RunningProcess> all();
  // A process and its running descendants; itself first, the others in no particular order.
  static std::vector<RunningProcess> tree_of(pid_t id);

  // Kills all started processes and their descendants, and waits for their ends, at most so long.
  // Returns how many have not ended by then. Signals that arrive meanwhile are kept for wait().
  std::size_t kill_all(std::int64_t at_most_ns);

 private:
  void reap();

  sigset_t awaited_{};
  sigset_t before_{};
  std::map<pid_t, std::optional<Ending>> started_;
};

}  // namespace pipesim::exec
