#include "exec/cli/supervise_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "exec/cli/parse_number.h"
#include "exec/supervise/journal.h"
#include "exec/supervise/layouts.h"
#include "exec/supervise/progress_file.h"
#include "exec/supervise/supervision.h"
#include "exec/supervise/supervisor.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

std::vector<std::int64_t> parse_kills(const Flag& flag) {
  std::vector<std::int64_t> times;
  if (!flag) return times;
  for (const std::string_view time : split(*flag, ',')) {
    times.push_back(parse_time_ns(time, "--kill-at"));
  }
  std::ranges::sort(times);
  return times;
}

std::int64_t parse_grow_every(const SuperviseFlags& flags) {
  if (flags.grow_every && !flags.ranks_available) {
    throw input_error(
        "--grow-every: nothing says how many ranks there are; give --ranks-available, too");
  }
  const std::int64_t time = parse_time_ns(flags.grow_every.value_or("60s"), "--grow-every");
  if (time > 0) return time;
  throw input_error("--grow-every: to ask without a pause leaves no time to train; give 60s");
}

// Next to the checkpoints, visible to all hosts.
std::string progress_path(const SuperviseFlags& flags, const std::string& checkpoint) {
  std::filesystem::path path = checkpoint;
  if (!path.has_filename()) path = path.parent_path();
  path += ".progress";
  const std::string asked = flags.progress.value_or(path.string());
  std::error_code failed;  // of an empty name, or where the current folder is gone
  path = std::filesystem::absolute(asked, failed);
  if (!failed) return path.string();
  throw input_error(fmt::format("--progress: {} can't be found from here: {}; name a file",
                                quote(asked), failed.message()));
}

// The progress file exists during its lifetime.
class ProgressPlace {
 public:
  explicit ProgressPlace(std::string path) : path_(std::move(path)) { ProgressFile tried(path_); }
  ~ProgressPlace() { ::unlink(path_.c_str()); }
  ProgressPlace(const ProgressPlace&) = delete;
  ProgressPlace& operator=(const ProgressPlace&) = delete;

 private:
  std::string path_;
};

std::string last_words(const Journal& journal) {
  const auto attempts = static_cast<std::int64_t>(journal.attempts().size());
  const double useful =
      static_cast<double>(journal.useful_ns()) / static_cast<double>(journal.now_ns());
  return fmt::format("{} in {}, {} of the time useful", plural(journal.finished(), "iteration"),
                     plural(attempts, "attempt"), format_percent(useful));
}

int supervise(const SuperviseFlags& flags, const std::optional<Launch>& launch) {
  if (launch && launch->ranks > 1) {
    throw input_error(
        fmt::format("{0} has started {1} of supervise; one is enough, and starts the ranks: "
                    "pipeexec supervise -- {0} -n {1} pipeexec ...",
                    launch->launcher, launch->ranks));
  }
  const SupervisedCommand command = supervised_command(flags.command, flags.alternatives);
  SupervisionOrders orders;
  if (flags.restarts) {
    orders.restarts = parse_number(*flags.restarts, "--restarts", 0, static_cast<int>(max_count),
                                   "a whole number from 0");
  }
  orders.timeout_ns = parse_time_ns(flags.timeout.value_or("300s"), "--timeout");
  orders.grace_ns = parse_time_ns(flags.grace.value_or("30s"), "--grace");
  orders.available = flags.ranks_available;
  orders.grow_every_ns = parse_grow_every(flags);
  orders.kill_at_ns = parse_kills(flags.kill_at);
  orders.progress = progress_path(flags, command.checkpoint);
  if (flags.json) orders.output = STDERR_FILENO;
  left_behind(orders.progress);  // refuses before it touches the file of one that runs
  const ProgressPlace place(orders.progress);
  Journal journal(command, flags.trace, [](const std::string& line) {
    complain(fmt::format("pipeexec supervise: {}\n", printable(line)));
  });
  Supervision supervision(command, orders, journal);
  const Supervision::Conclusion over = supervision.run();
  journal.say(
      fmt::format("{}: {}", over.exit_status == 0 ? "done" : "not done", last_words(journal)));
  if (flags.json) print(journal.summary_json(over.exit_status, over.reason));
  finish_printing();
  return over.exit_status;
}

}  // namespace

void add_supervise(CommandLine& program, SuperviseFlags& flags,
                   const std::optional<Launch>& launch) {
  CommandLine& command =
      program.add_command("supervise", "Restarts a training that dies or hangs.");
  command.add_flags("", {FlagHelp("command", &flags.command, "WORDS",
                                  "after --: a launcher and pipeexec with its flags")
                             .required()});
  command.add_flags(
      "Restarts",
      {{"--restarts", &flags.restarts, "N", "most restarts in all; default 3"},
       {"--timeout", &flags.timeout, "T", "no iteration for so long is a hang; default 300s"},
       {"--grace", &flags.grace, "T", "from SIGTERM to SIGKILL; default 30s"}});
  command.add_flags(
      "Fewer ranks",
      {{"--or", &flags.alternatives, "'FLAGS'", "an alternative, such as '-n 2 --data-parallel 1'"},
       {"--ranks-available", &flags.ranks_available, "COMMAND",
        "prints the number of ranks, busy or not"},
       {"--grow-every", &flags.grow_every, "T", "how often to ask for more ranks; default 60s"}});
  command.add_flags(
      "Output",
      {{"--trace", &flags.trace, "FILE.json", "attempts and events, as a Chrome trace"},
       {"--json", &flags.json, "prints a summary; the command prints to stderr"},
       {"--progress", &flags.progress, "FILE", "file where rank 0 counts; default DIR.progress"},
       {"--kill-at", &flags.kill_at, "T,T,...", "kills a rank at these times, as a rehearsal"}});
  command.set_footer(
      "The command runs pipeexec with --checkpoint DIR; --resume DIR is added. If it\n"
      "ends with an exit status other than 0, or makes no progress for --timeout\n"
      "(0s: forever), it is restarted from the newest complete\n"
      "checkpoint, but not after exit status 2, a wrong input: it would fail again. A\n"
      "command that hangs gets SIGTERM, and after --grace SIGKILL. No process of it is\n"
      "left when the next attempt starts.\n"
      "\n"
      "--or may be repeated, the best alternative first: its flags replace\n"
      "those of the command, -n that of its launcher. --ranks-available runs before\n"
      "each start, and the first layout with no more ranks is taken; if a better\n"
      "one fits again later, the run saves, ends and resumes with that. Without it, two\n"
      "attempts in a row without progress lead to the next\n"
      "alternative, for good.\n"
      "\n"
      "On SIGTERM, SIGINT, SIGHUP or SIGUSR1 it ends: the ranks get SIGTERM, save,\n"
      "and are killed after --grace. The exit status is then 128 plus the signal, or 0\n"
      "if the training was done; if it gives up, that of the last attempt.\n"
      "\n"
      "Rank 0 counts iterations in the file that PIPEEXEC_PROGRESS names. Where rank 0\n"
      "is on another host than mpirun, give mpirun -x PIPEEXEC_PROGRESS.\n"
      "\n"
      "Examples:\n"
      "  pipeexec supervise --restarts 10 -- mpirun -n 4 pipeexec --schedule 1f1b \\\n"
      "    --microbatches 8 --iterations 1000 --checkpoint ck --checkpoint-every 50\n"
      "  pipeexec supervise --or '-n 2 --data-parallel 1' --timeout 60s -- \\\n"
      "    mpirun -n 4 pipeexec --schedule 1f1b --data-parallel 2 --global-batch 64 \\\n"
      "    --iterations 1000 --checkpoint ck --checkpoint-every 50");
  command.set_work([&flags, &launch] {
    const int status = supervise(flags, launch);
    if (status != 0) std::exit(status);  // everything is printed
  });
}

}  // namespace pipesim::exec
