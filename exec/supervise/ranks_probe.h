// The number of ranks that hosts offer now, by a command of the user's.
// It runs concurrently with the supervised command; nothing waits for it. One owner, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/supervise/processes.h"

namespace pipesim::exec {

class RanksProbe {
 public:
  // The number that the command printed, or why its output is not a number of ranks.
  struct Answer {
    std::optional<int> ranks;
    std::string wrong;
  };

  // `command` is for the shell; it must answer within `patience_ns`, in less than 64 KiB.
  // `processes` must outlive the probe.
  RanksProbe(Processes& processes, std::string command, std::int64_t patience_ns)
      : processes_(processes), command_(std::move(command)), patience_ns_(patience_ns) {}
  ~RanksProbe();
  RanksProbe(const RanksProbe&) = delete;
  RanksProbe& operator=(const RanksProbe&) = delete;

  bool is_running() const { return id_ != 0; }
  void start(std::int64_t now_ns);
  // The time until answer() may have one even if no process ends; only while it runs.
  std::int64_t time_to_look(std::int64_t now_ns) const;
  // Nothing while it may still answer.
  std::optional<Answer> answer(std::int64_t now_ns);
  // Ends a running one, without an answer.
  void cancel();

 private:
  Answer answer_of(const Ending& ending) const;
  void read_output();

  Processes& processes_;
  std::string command_;
  std::int64_t patience_ns_;
  pid_t id_ = 0;
  int output_ = -1;      // a pipe
  std::string printed_;  // what came through it so far
  std::int64_t deadline_ns_ = 0;
};

}  // namespace pipesim::exec
