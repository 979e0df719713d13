#include "exec/supervise/supervision.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "exec/supervise/supervisor.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// The exit status for wrong input, of pipeexec and other programs.
constexpr int wrong_input_status = 2;

constexpr std::int64_t longest_look_ns = 1'000'000'000;
constexpr std::int64_t shortest_look_ns = 5'000'000;
// Checks within the time after which a run counts as hung.
constexpr std::int64_t looks_a_timeout = 20;

// The time limit of --ranks-available, or --timeout if that is shorter.
constexpr std::int64_t probe_patience_ns = 60'000'000'000;

// Attempts without progress before the next alternative is tried.
constexpr int attempts_a_layout = 2;

std::string signal_text(int signal) { return fmt::format("{} ({})", signal, ::strsignal(signal)); }

bool is_rank(const RunningProcess& process) { return process.name == "pipeexec"; }

}  // namespace

Supervision::Supervision(const SupervisedCommand& command, const SupervisionOrders& orders,
                         Journal& journal)
    : command_(command), orders_(orders), journal_(journal) {
  if (!orders.available) return;
  for (const CommandLayout& layout : command.layouts) {
    if (layout.ranks) continue;
    throw input_error(fmt::format(
        "--ranks-available: the number of ranks that {} needs is not given; give its launcher "
        "-n, as in mpirun -n 4",
        layout.name()));
  }
  probe_.emplace(
      processes_, *orders.available,
      orders.timeout_ns > 0 ? std::min(orders.timeout_ns, probe_patience_ns) : probe_patience_ns);
}

Supervision::Conclusion Supervision::run() {
  if (auto over = end_what_is_left()) return *over;
  for (;;) {
    if (auto over = choose_layout()) return *over;
    // A signal that arrived while the last attempt was cleaned up.
    if (const auto signal = processes_.wait(0)) return told_while_waiting(*signal);
    run_attempt();
    if (auto over = conclude()) return *over;
  }
}

// Ranks of a supervisor that was killed notice, save and end. What has not within the grace would
// write to the files of the next attempt.
std::optional<Supervision::Conclusion> Supervision::end_what_is_left() {
  const std::int64_t kill_ns = journal_.now_ns() + orders_.grace_ns;
  for (bool is_first = true;; is_first = false) {
    const std::vector<pid_t> left = left_behind(orders_.progress);
    if (left.empty()) return std::nullopt;
    if (is_first) {
      journal_.say(fmt::format("{} of a supervisor that was killed: waits for their end",
                               plural(std::ssize(left), "process", "processes")));
    }
    if (journal_.now_ns() >= kill_ns) {
      for (const pid_t id : left) ::kill(id, SIGKILL);
    }
    if (const auto signal = processes_.wait(shortest_look_ns * 10)) {
      return told_while_waiting(*signal);
    }
  }
}

// The first for which there are enough ranks; waits until there is one.
std::optional<Supervision::Conclusion> Supervision::choose_layout() {
  if (!probe_) return std::nullopt;
  bool waits = false;
  for (;;) {
    if (!probe_->is_running()) probe_->start(journal_.now_ns());
    std::optional<RanksProbe::Answer> answer;
    while (!(answer = probe_->answer(journal_.now_ns()))) {
      const std::int64_t left = probe_->time_to_look(journal_.now_ns());
      if (const auto signal = processes_.wait(left)) return told_while_waiting(*signal);
    }
    if (!answer->ranks) {
      const std::string wrong =
          fmt::format("--ranks-available {}: {}", quote(*orders_.available), answer->wrong);
      if (!has_started_) {
        throw input_error(fmt::format("{}; give a command that prints how many there are", wrong));
      }
      journal_.say(fmt::format("{}; the layout stays as it is", wrong));
      break;
    }
    if (const auto fits = layout_for(*answer->ranks)) {
      if (*fits != layout_) {
        journal_.add(
            *fits > layout_ ? EventKind::fallback : EventKind::grow,
            fmt::format("{} available; now with {}", plural(*answer->ranks, "rank is", "ranks are"),
                        command_.layouts[*fits].name()));
      }
      layout_ = *fits;
      break;
    }
    if (!waits) {
      waits = true;
      journal_.add(EventKind::wait, fmt::format("{} available, and no layout needs so few",
                                                plural(*answer->ranks, "rank is", "ranks are")));
    }
    const std::int64_t again = journal_.now_ns() + orders_.grow_every_ns;
    while (journal_.now_ns() < again) {
      if (const auto signal = processes_.wait(again - journal_.now_ns())) {
        return told_while_waiting(*signal);
      }
    }
  }
  if (waits) journal_.close(EventKind::wait);
  next_probe_ns_ = journal_.now_ns() + orders_.grow_every_ns;
  return std::nullopt;
}

std::optional<std::size_t> Supervision::layout_for(int ranks) const {
  for (std::size_t i = 0; i < command_.layouts.size(); ++i) {
    if (command_.layouts[i].ranks <= ranks) return i;
  }
  return std::nullopt;
}

void Supervision::run_attempt() {
  stop_ = {};
  progress_.reset();
  ::unlink(orders_.progress.c_str());
  journal_.begin_attempt(layout_);
  id_ = processes_.start({.words = command_.layouts[layout_].words,
                          .environment = {{progress_variable, orders_.progress},
                                          {supervisor_variable, supervisor_value()}},
                          .output = orders_.output});
  has_started_ = true;
  progressed_ns_ = journal_.now_ns();
  for (;;) {
    const auto signal = processes_.wait(time_to_look(journal_.now_ns()));
    look_at_progress();
    if (signal) {
      // Ctrl-C twice means at once; job managers often send other signals twice.
      const bool hurry = *signal == SIGINT && stop_.signal == SIGINT;
      ask_to_end(AttemptEnd::signal, *signal);
      if (hurry) stop_.kill_ns = journal_.now_ns();
    }
    if (processes_.ending_of(id_)) break;
    const std::int64_t now = journal_.now_ns();
    if (stop_.why == AttemptEnd::none) {
      kill_some();
      check_hang(now);
      check_growth(now);
    } else if (now >= stop_.kill_ns) {
      break;
    }
  }
  look_at_progress();
  if (probe_) probe_->cancel();
  // Ranks that outlive their launcher would write to the next attempt's files.
  const auto ending = processes_.ending_of(id_);
  const bool went_well = ending && ending->went_well();
  survivors_ = went_well ? 0 : processes_.kill_all(std::max(orders_.grace_ns, longest_look_ns));
  if (went_well) {
    stop_.why = AttemptEnd::done;
  } else if (stop_.why == AttemptEnd::none) {
    stop_.why = AttemptEnd::death;
  }
}

// Returns whether there is any.
bool Supervision::look_at_progress() {
  const std::optional<RunProgress> now = read_progress(orders_.progress);
  if (!now || now == progress_) return false;
  const bool is_first = !progress_;
  progress_ = now;
  progressed_ns_ = journal_.now_ns();
  if (is_first) journal_.note_first_iteration(*now);
  return true;
}

// Signals the ranks, which save then; a signalled launcher might end them at once. If no rank is
// visible here, signals the launcher, which passes it on.
void Supervision::ask_to_end(AttemptEnd why, int signal) {
  const std::int64_t now = journal_.now_ns();
  if (why == AttemptEnd::signal) {
    journal_.add(EventKind::signal,
                 fmt::format("{}: the command is to save and end", signal_text(signal)));
  }
  const bool was_asked = stop_.why != AttemptEnd::none;
  stop_.why = why;
  stop_.signal = signal;
  if (was_asked) return;
  stop_.kill_ns = now + orders_.grace_ns;
  bool told = false;
  for (const RunningProcess& process : Processes::tree_of(id_)) {
    if (is_rank(process)) told |= ::kill(process.id, SIGTERM) == 0;
  }
  if (!told) ::kill(-id_, SIGTERM);
}

void Supervision::check_hang(std::int64_t now_ns) {
  if (orders_.timeout_ns == 0 || now_ns - progressed_ns_ < orders_.timeout_ns) return;
  const std::string where =
      progress_ ? fmt::format("after iteration {}", progress_->finished)
                : fmt::format("before any iteration (does rank 0 have {}?)", progress_variable);
  journal_.add(EventKind::hang,
               fmt::format("no progress for {}, {}", format_time(now_ns - progressed_ns_), where),
               progressed_ns_);
  ask_to_end(AttemptEnd::hang);
}

// While there are fewer ranks than wanted.
void Supervision::check_growth(std::int64_t now_ns) {
  if (!probe_ || layout_ == 0 || stop_.why != AttemptEnd::none) return;
  if (!probe_->is_running()) {
    if (now_ns >= next_probe_ns_) probe_->start(now_ns);
    return;
  }
  const auto answer = probe_->answer(now_ns);
  if (!answer) return;
  next_probe_ns_ = now_ns + orders_.grow_every_ns;
  if (!answer->ranks) return;
  const auto fits = layout_for(*answer->ranks);
  if (!fits || *fits >= layout_) return;
  journal_.add(EventKind::grow,
               fmt::format("{} available: {}", plural(*answer->ranks, "rank is", "ranks are"),
                           command_.layouts[*fits].name()));
  ask_to_end(AttemptEnd::growth);
  stop_.next_layout = *fits;
}

// Kills one rank, the last one started; before there are any, the command.
void Supervision::kill_some() {
  while (kills_ < orders_.kill_at_ns.size() && orders_.kill_at_ns[kills_] <= journal_.now_ns()) {
    ++kills_;
    RunningProcess victim{id_, 0, "the command"};
    for (const RunningProcess& process : Processes::tree_of(id_)) {
      if (is_rank(process))
        victim =
            std::max(victim, process, [](const auto& a, const auto& b) { return a.id < b.id; });
    }
    journal_.add(EventKind::kill, fmt::format("process {} ({}), as asked", victim.id, victim.name));
    ::kill(victim.id, SIGKILL);
  }
}

// The time until the next check, if no process ends and no signal arrives.
std::int64_t Supervision::time_to_look(std::int64_t now_ns) const {
  const std::int64_t look = orders_.timeout_ns / looks_a_timeout;
  std::int64_t until =
      now_ns + (orders_.timeout_ns > 0 ? std::clamp(look, shortest_look_ns, longest_look_ns)
                                       : longest_look_ns);
  if (stop_.why != AttemptEnd::none) {
    until = std::min(until, stop_.kill_ns);
  } else {
    if (kills_ < orders_.kill_at_ns.size()) until = std::min(until, orders_.kill_at_ns[kills_]);
    if (probe_ && layout_ > 0) {
      until = std::min(
          until, probe_->is_running() ? now_ns + probe_->time_to_look(now_ns) : next_probe_ns_);
    }
  }
  return std::max<std::int64_t>(until - now_ns, 0);
}

// The conclusion from the end of an attempt; nothing if another attempt follows.
std::optional<Supervision::Conclusion> Supervision::conclude() {
  const std::int64_t before = journal_.finished();
  const auto found = processes_.ending_of(id_);
  const Ending ending = found.value_or(Ending{0, SIGKILL});
  journal_.end_attempt(stop_.why, ending, progress_);
  if (survivors_ > 0) {
    return give_up(1, fmt::format("{} not end after SIGKILL, and may still write checkpoints",
                                  plural(static_cast<std::int64_t>(survivors_), "process does",
                                         "processes do")));
  }
  switch (stop_.why) {
    case AttemptEnd::done: return Conclusion{0, "done"};
    case AttemptEnd::signal: return told_to_end(stop_.signal);
    case AttemptEnd::growth: layout_ = stop_.next_layout; return std::nullopt;
    default: break;
  }
  const bool hung = stop_.why == AttemptEnd::hang;
  if (!hung && ending.signal == 0 && ending.status == wrong_input_status) {
    return give_up(wrong_input_status,
                   "exit status 2: an input is wrong, as the command said, and a restart would "
                   "fail again");
  }
  const std::string reason = hung ? "a hang" : ending.text();
  const std::string done = fmt::format("{} done", plural(journal_.finished(), "iteration"));
  if (restarts_ == orders_.restarts) {
    return give_up(ending.exit_status() == 0 ? 1 : ending.exit_status(),
                   fmt::format("{} after {}; {}", reason, plural(restarts_, "restart"), done));
  }
  ++restarts_;
  fruitless_ = journal_.finished() > before ? 0 : fruitless_ + 1;
  const std::string restart =
      fmt::format("{} of {} after {}; {}", restarts_, orders_.restarts, reason, done);
  if (!probe_ && fruitless_ >= attempts_a_layout && layout_ + 1 < command_.layouts.size()) {
    ++layout_;
    fruitless_ = 0;
    journal_.add(EventKind::fallback,
                 fmt::format("restart {}; now with {}", restart, command_.layouts[layout_].name()));
  } else {
    journal_.add(EventKind::restart, restart);
  }
  return std::nullopt;
}

Supervision::Conclusion Supervision::give_up(int exit_status, const std::string& reason) {
  journal_.add(EventKind::give_up, reason);
  return {exit_status, reason};
}

Supervision::Conclusion Supervision::told_while_waiting(int signal) {
  journal_.add(EventKind::signal, signal_text(signal) + ", while nothing runs");
  return told_to_end(signal);
}

Supervision::Conclusion Supervision::told_to_end(int signal) {
  return {128 + signal, fmt::format("ended by signal {}", signal_text(signal))};
}

}  // namespace pipesim::exec
