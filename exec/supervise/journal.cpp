#include "exec/supervise/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "exec/run/clock.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::int64_t system_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Chrome's times are microseconds; three digits more are nanoseconds.
Json chrome_time(std::int64_t ns) {
  return Json::verbatim(fmt::format("{}.{:03}", ns / 1000, ns % 1000));
}

enum class Track : std::uint8_t { attempts, events };

Json name_event(const char* what, int thread, const std::string& name) {
  Json event = Json::object();
  event["ph"] = "M";
  event["pid"] = 0;
  event["tid"] = thread;
  event["name"] = what;
  event["args"]["name"] = name;
  return event;
}

Json slice_event(Track track, const std::string& name, std::int64_t start_ns, std::int64_t end_ns,
                 Json arguments) {
  Json event = Json::object();
  event["ph"] = "X";
  event["pid"] = 0;
  event["tid"] = static_cast<int>(track);
  event["name"] = name;
  event["ts"] = chrome_time(start_ns);
  event["dur"] = chrome_time(std::max<std::int64_t>(end_ns - start_ns, 0));
  event["args"] = std::move(arguments);
  return event;
}

// Lasts until an iteration is done again.
bool holds_up(EventKind kind) {
  return kind == EventKind::restart || kind == EventKind::fallback || kind == EventKind::grow;
}

std::string ending_text(const Attempt& attempt) {
  return attempt.why == AttemptEnd::none ? "" : attempt.ending.text();
}

Json attempt_json(const Attempt& attempt, const std::vector<CommandLayout>& layouts) {
  Json json = Json::object();
  const CommandLayout& layout = layouts[attempt.layout];
  json["layout"] = attempt.layout;
  json["command"] = command_text(layout.words);
  json["ranks"] = layout.ranks;
  json["begun"] = attempt.progress ? Json(attempt.progress->begun) : Json();
  json["finished"] = attempt.progress ? Json(attempt.progress->finished) : Json();
  json["useful_iterations"] = attempt.useful;
  json["why"] = attempt_end_name(attempt.why);
  json["ending"] = ending_text(attempt);
  return json;
}

}  // namespace

std::string_view attempt_end_name(AttemptEnd end) {
  switch (end) {
    case AttemptEnd::none: return "running";
    case AttemptEnd::done: return "done";
    case AttemptEnd::death: return "death";
    case AttemptEnd::hang: return "hang";
    case AttemptEnd::growth: return "grow";
    case AttemptEnd::signal: break;
  }
  return "signal";
}

std::string_view event_name(EventKind kind) {
  switch (kind) {
    case EventKind::restart: return "restart";
    case EventKind::fallback: return "fallback";
    case EventKind::grow: return "grow";
    case EventKind::wait: return "wait";
    case EventKind::hang: return "hang";
    case EventKind::signal: return "signal";
    case EventKind::kill: return "kill";
    case EventKind::give_up: break;
  }
  return "give up";
}

Journal::Journal(const SupervisedCommand& command, std::optional<std::string> trace, Say say)
    : command_(command),
      trace_(std::move(trace)),
      say_(std::move(say)),
      zero_ns_(Clock::monotonic_ns()),
      zero_wall_ns_(system_clock_ns()) {
  if (!trace_) return;
  std::error_code failed;  // what can't be looked at can't be written
  const auto there = std::filesystem::status(*trace_, failed);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    throw input_error(fmt::format(
        "--trace: {} is not a regular file, and is rewritten at each event; name a file",
        quote(*trace_)));
  }
  write_file(*trace_, trace_json());
}

std::int64_t Journal::now_ns() const { return Clock::monotonic_ns() - zero_ns_; }

void Journal::say(const std::string& text) const {
  say_(fmt::format("{:.2f} s: {}", static_cast<double>(now_ns()) / 1e9, text));
}

void Journal::begin_attempt(std::size_t layout) {
  Attempt attempt;
  attempt.layout = layout;
  attempt.start_ns = now_ns();
  attempts_.push_back(attempt);
  say(fmt::format("attempt {}: {}", attempts_.size(),
                  command_text(command_.layouts[layout].words)));
  write_trace();
}

void Journal::note_first_iteration(const RunProgress& progress) {
  Attempt& attempt = attempts_.back();
  attempt.progress = progress;
  // Another host's clock may say anything.
  const std::int64_t told = progress.first_ns - zero_wall_ns_;
  attempt.first_ns = std::clamp(told, attempt.start_ns, now_ns());
  for (SupervisionEvent& event : events_) {
    if (!event.end_ns && holds_up(event.kind)) event.end_ns = attempt.first_ns;
  }
  say(fmt::format("attempt {} trains: iteration {} was done {} after its start", attempts_.size(),
                  progress.begun + 1, format_time(*attempt.first_ns - attempt.start_ns)));
  write_trace();
}

void Journal::end_attempt(AttemptEnd why, const Ending& ending,
                          const std::optional<RunProgress>& progress) {
  Attempt& attempt = attempts_.back();
  attempt.end_ns = now_ns();
  attempt.why = why;
  attempt.ending = ending;
  if (progress) {
    attempt.progress = progress;
    attempt.useful =
        std::max<std::int64_t>(progress->finished - std::max(progress->begun, finished_), 0);
    finished_ = std::max(finished_, progress->finished);
  }
  for (SupervisionEvent& event : events_) {
    const bool is_of_next = event.kind == EventKind::grow && event.start_ns >= attempt.start_ns;
    if (!event.end_ns && !is_of_next) event.end_ns = attempt.end_ns;
  }
  const std::string done =
      progress ? plural(progress->finished, "iteration") + " done" : "no iteration was done";
  say(fmt::format("attempt {} has ended: {}; {}", attempts_.size(), ending.text(), done));
  write_trace();
}

void Journal::add(EventKind kind, const std::string& text, std::optional<std::int64_t> since_ns) {
  const std::int64_t start = since_ns.value_or(now_ns());
  const bool at_once = kind == EventKind::kill || kind == EventKind::give_up;
  events_.push_back({kind, start, at_once ? std::optional(start) : std::nullopt, text});
  say(fmt::format("{}: {}", event_name(kind), text));
  write_trace();
}

void Journal::close(EventKind kind) {
  for (SupervisionEvent& event : events_) {
    if (event.kind == kind && !event.end_ns) event.end_ns = now_ns();
  }
}

std::int64_t Journal::useful_ns() const {
  // An attempt with only one iteration has no time of its own.
  std::int64_t usual = 0;
  for (const Attempt& attempt : attempts_) {
    if (attempt.progress && attempt.progress->iteration_ns > 0) {
      usual = attempt.progress->iteration_ns;
    }
  }
  std::int64_t useful = 0;
  for (const Attempt& attempt : attempts_) {
    if (!attempt.progress) continue;
    const std::int64_t own = attempt.progress->iteration_ns;
    useful += attempt.useful * (own > 0 ? own : usual);
  }
  return useful;
}

std::string Journal::trace_json() const {
  const std::int64_t now = now_ns();
  Json events = Json::array();
  events.push_back(name_event("process_name", 0, "supervision"));
  events.push_back(name_event("thread_name", static_cast<int>(Track::attempts), "attempts"));
  events.push_back(name_event("thread_name", static_cast<int>(Track::events), "events"));
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    const Attempt& attempt = attempts_[i];
    events.push_back(slice_event(Track::attempts, fmt::format("attempt {}", i + 1),
                                 attempt.start_ns, attempt.end_ns.value_or(now),
                                 attempt_json(attempt, command_.layouts)));
  }
  for (const SupervisionEvent& event : events_) {
    Json arguments = Json::object();
    arguments["text"] = event.text;
    events.push_back(slice_event(Track::events, std::string(event_name(event.kind)), event.start_ns,
                                 event.end_ns.value_or(now), std::move(arguments)));
  }
  Json trace = Json::object();
  trace["displayTimeUnit"] = "ms";
  trace["traceEvents"] = std::move(events);
  return trace.dump(1) + "\n";
}

// A full disk is no reason to end the supervised command.
void Journal::write_trace() {
  if (!trace_) return;
  try {
    write_file(*trace_, trace_json());
  } catch (const Error& error) {
    trace_.reset();
    say(fmt::format("{}; no trace is written from now on", error.what()));
  }
}

std::string Journal::summary_json(int exit_status, const std::string& reason) const {
  const std::int64_t wall = now_ns();
  Json attempts = Json::array();
  std::int64_t useful = 0;
  std::int64_t repeated = 0;
  for (const Attempt& attempt : attempts_) {
    Json json = attempt_json(attempt, command_.layouts);
    json["exit_status"] = attempt.ending.exit_status();
    json["start_ns"] = attempt.start_ns;
    json["first_iteration_ns"] = attempt.first_ns;
    json["end_ns"] = attempt.end_ns;
    json["iteration_ns"] = attempt.progress ? Json(attempt.progress->iteration_ns) : Json();
    attempts.push_back(std::move(json));
    useful += attempt.useful;
    if (attempt.progress) {
      repeated += attempt.progress->finished - attempt.progress->begun - attempt.useful;
    }
  }
  Json events = Json::array();
  for (const SupervisionEvent& event : events_) {
    Json json = Json::object();
    json["kind"] = event_name(event.kind);
    json["start_ns"] = event.start_ns;
    json["end_ns"] = event.end_ns;
    json["text"] = event.text;
    events.push_back(std::move(json));
  }
  Json summary = Json::object();
  summary["format"] = "pipeexec-supervision";
  summary["version"] = 1;
  summary["exit_status"] = exit_status;
  summary["reason"] = reason;
  summary["wall_ns"] = wall;
  summary["useful_ns"] = useful_ns();
  summary["useful_fraction"] = static_cast<double>(useful_ns()) / static_cast<double>(wall);
  summary["useful_iterations"] = useful;
  summary["repeated_iterations"] = repeated;
  summary["attempts"] = std::move(attempts);
  summary["events"] = std::move(events);
  return summary.dump(2) + "\n";
}

}  // namespace pipesim::exec
