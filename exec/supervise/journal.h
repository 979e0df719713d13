// The history of a supervised command: each attempt, what happened between them, and the useful
// share of time. A Journal prints one line for each event, and rewrites the trace, whole or not at
// all. Times are nanoseconds since its construction. One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/supervise/layouts.h"
#include "exec/supervise/processes.h"
#include "exec/supervise/progress_file.h"

namespace pipesim::exec {

// Why an attempt ended.
enum class AttemptEnd : std::uint8_t { none, done, death, hang, growth, signal };
std::string_view attempt_end_name(AttemptEnd end);

// The command, started once.
struct Attempt {
  std::size_t layout = 0;
  std::int64_t start_ns = 0;
  std::optional<std::int64_t> first_ns;  // when its first iteration was done
  std::optional<std::int64_t> end_ns;
  std::optional<RunProgress> progress;  // as it ended
  std::int64_t useful = 0;              // iterations that no earlier attempt had done
  AttemptEnd why = AttemptEnd::none;
  Ending ending = {};
};

// Other events, with a duration or instantaneous.
enum class EventKind : std::uint8_t { restart, fallback, grow, wait, hang, signal, kill, give_up };
std::string_view event_name(EventKind kind);

struct SupervisionEvent {
  EventKind kind = EventKind::restart;
  std::int64_t start_ns = 0;
  std::optional<std::int64_t> end_ns;  // none while it lasts
  std::string text;
};

class Journal {
 public:
  using Say = std::function<void(const std::string& line)>;
  // Writes the first version of the trace, if one is requested; throws an input error if that
  // fails. `command` must outlive the journal.
  Journal(const SupervisedCommand& command, std::optional<std::string> trace, Say say);

  std::int64_t now_ns() const;

  void begin_attempt(std::size_t layout);
  // Its first iteration is done: ends the events that delayed it.
  void note_first_iteration(const RunProgress& progress);
  void end_attempt(AttemptEnd why, const Ending& ending,
                   const std::optional<RunProgress>& progress);

  // Begins an event: a restart, a fallback or a growth lasts until the next attempt trains, the
  // others until the attempt ends.
  void add(EventKind kind, const std::string& text, std::optional<std::int64_t> since_ns = {});
  // Ends the last event of that kind.
  void close(EventKind kind);
  void say(const std::string& text) const;

  const std::vector<Attempt>& attempts() const { return attempts_; }
  // The most iterations done by any attempt.
  std::int64_t finished() const { return finished_; }
  // The time of useful iterations: their number in each attempt times its median iteration.
  std::int64_t useful_ns() const;

  // `pipeexec-supervision`, in traces/FORMAT.md.
  std::string summary_json(int exit_status, const std::string& reason) const;

 private:
  std::string trace_json() const;
  void write_trace();

  const SupervisedCommand& command_;
  std::optional<std::string> trace_;
  Say say_;
  std::int64_t zero_ns_;       // of the host's clock
  std::int64_t zero_wall_ns_;  // of the system's clock, at that time
  std::vector<Attempt> attempts_;
  std::vector<SupervisionEvent> events_;
  std::int64_t finished_ = 0;
};

}  // namespace pipesim::exec
