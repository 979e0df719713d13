// Runs a command until it has nothing left to do: restarts it if it dies or hangs, with fewer ranks
// if no more are available. Knows processes, signals and the number of iterations done; training
// and saving are the command's. One thread, the main one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/supervise/journal.h"
#include "exec/supervise/layouts.h"
#include "exec/supervise/processes.h"
#include "exec/supervise/progress_file.h"
#include "exec/supervise/ranks_probe.h"

namespace pipesim::exec {

struct SupervisionOrders {
  int restarts = 3;                           // after deaths and hangs, in total
  std::int64_t timeout_ns = 0;                // without a further iteration; 0: forever
  std::int64_t grace_ns = 0;                  // between SIGTERM and SIGKILL
  std::optional<std::string> available;       // a command that prints the number of available ranks
  std::int64_t grow_every_ns = 0;             // how often to run it
  std::vector<std::int64_t> kill_at_ns = {};  // sorted: rehearsed deaths
  std::string progress;                       // the file's name
  int output = -1;                            // instead of standard output
};

class Supervision {
 public:
  struct Conclusion {
    int exit_status = 0;
    std::string reason;  // a sentence's end: "done", "exit status 2, ..."
  };

  // All must outlive it. Throws an input error if ranks are counted, and a layout does not say its
  // own.
  Supervision(const SupervisedCommand& command, const SupervisionOrders& orders, Journal& journal);

  // Called once.
  Conclusion run();

 private:
  // How the running attempt is to end, once that is decided.
  struct Stop {
    AttemptEnd why = AttemptEnd::none;
    std::int64_t kill_ns = 0;     // when to kill it
    int signal = 0;               // that arrived
    std::size_t next_layout = 0;  // if it grows
  };

  std::optional<Conclusion> end_what_is_left();
  std::optional<Conclusion> choose_layout();
  std::optional<std::size_t> layout_for(int ranks) const;
  void run_attempt();
  bool look_at_progress();
  void ask_to_end(AttemptEnd why, int signal = 0);
  void check_hang(std::int64_t now_ns);
  void check_growth(std::int64_t now_ns);
  void kill_some();
  std::int64_t time_to_look(std::int64_t now_ns) const;
  std::optional<Conclusion> conclude();
  Conclusion give_up(int exit_status, const std::string& reason);
  Conclusion told_to_end(int signal);
  Conclusion told_while_waiting(int signal);

  const SupervisedCommand& command_;
  const SupervisionOrders& orders_;
  Journal& journal_;
  Processes processes_;
  std::optional<RanksProbe> probe_;
  std::int64_t next_probe_ns_ = 0;
  std::size_t layout_ = 0;
  std::size_t kills_ = 0;  // done
  int restarts_ = 0;
  int fruitless_ = 0;  // the last attempts of this layout, without progress
  bool has_started_ = false;

  // Of the running attempt.
  pid_t id_ = 0;
  Stop stop_;
  std::optional<RunProgress> progress_;
  std::int64_t progressed_ns_ = 0;  // when that changed
  std::size_t survivors_ = 0;       // of SIGKILL
};

}  // namespace pipesim::exec
