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

// Beside the checkpoints, where all hosts see it.
std::string progress_path(const SuperviseFlags& flags, const std::string& checkpoint) {
  std::filesystem::path path = checkpoint;
  if (!path.has_filename()) path = path.parent_path();
  path += ".progress";
  return std::filesystem::absolute(flags.progress ? *flags.progress : path.string()).string();
}

// The file of progress is there while it lives.
class ProgressPlace {
 public:
  explicit ProgressPlace(std::string path) : path_(std::move(path)) { ProgressFile tried(path_); }
  ~ProgressPlace() { ::unlink(path_.c_str()); }
  ProgressPlace(const ProgressPlace&) = delete;
  ProgressPlace& operator=(const ProgressPlace&) = delete;

 private:
  std::string path_;
};

std::string last_words(const Journal& journal, const std::string& reason) {
  const auto attempts = static_cast<std::int64_t>(journal.attempts().size());
  const double useful =
      static_cast<double>(journal.useful_ns()) / static_cast<double>(journal.now_ns());
  return fmt::format("{}: {} in {}, {} of the time useful", reason,
                     plural(journal.finished(), "iteration"), plural(attempts, "attempt"),
                     format_percent(useful));
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
  const ProgressPlace place(orders.progress);
  Journal journal(command, flags.trace, [](const std::string& line) {
    complain(fmt::format("pipeexec supervise: {}\n", printable(line)));
  });
  Supervision supervision(command, orders, journal);
  const Supervision::Conclusion over = supervision.run();
  journal.say(last_words(journal, over.reason));
  if (flags.json) print(journal.summary_json(over.exit_status, over.reason));
  finish_printing();
  return over.exit_status;
}

}  // namespace

void add_supervise(CommandLine& program, SuperviseFlags& flags,
                   const std::optional<Launch>& launch) {
  CommandLine& command =
      program.add_command("supervise", "Restarts a training where it dies or hangs.");
  command.add_flags("", {FlagHelp("command", &flags.command, "WORDS",
                                  "behind --: a launcher and pipeexec, all flags")
                             .required()});
  command.add_flags(
      "Restarts",
      {{"--restarts", &flags.restarts, "N", "at most, in all; default 3"},
       {"--timeout", &flags.timeout, "T", "without an iteration is a hang; default 300s"},
       {"--grace", &flags.grace, "T", "from SIGTERM to SIGKILL; default 30s"}});
  command.add_flags("Fewer ranks", {{"--or", &flags.alternatives, "'FLAGS'",
                                     "an alternative, as '-n 2 --data-parallel 1'"},
                                    {"--ranks-available", &flags.ranks_available, "COMMAND",
                                     "prints how many there are now, busy ones included"},
                                    {"--grow-every", &flags.grow_every, "T",
                                     "asks so often whether more are back; default 60s"}});
  command.add_flags(
      "Output",
      {{"--trace", &flags.trace, "FILE.json", "attempts and events, as a Chrome trace"},
       {"--json", &flags.json, "prints a summary; the command prints to stderr"},
       {"--progress", &flags.progress, "FILE", "where rank 0 counts; default DIR.progress"},
       {"--kill-at", &flags.kill_at, "T,T,...", "kills a rank at these times, to rehearse"}});
  command.set_footer(
      "The command runs pipeexec with --checkpoint DIR; --resume DIR is added. Where it\n"
      "ends other than with exit status 0, or does no further iteration for --timeout\n"
      "(0s: for ever), it is started again, and goes on from the newest whole\n"
      "checkpoint. With exit status 2, a wrong input, it is not: it would fail again. A\n"
      "command that hangs gets SIGTERM, and after --grace SIGKILL. No process of it is\n"
      "left when the next attempt starts.\n"
      "\n"
      "--or, as often as there are alternatives, the best first: its flags replace\n"
      "those of the command, -n that of its launcher. --ranks-available is asked before\n"
      "each start, and the first layout is taken that has no more ranks; where a better\n"
      "one fits again later, the run saves, ends and goes on with that. Without it, two\n"
      "attempts in a row that get no further than those before lead to the next\n"
      "alternative, for good.\n"
      "\n"
      "SIGTERM, SIGINT, SIGHUP and SIGUSR1 tell it to end: the ranks get SIGTERM, save,\n"
      "and after --grace are killed. The exit status is then 128 and the signal, or 0\n"
      "where the training was done; where it gives up, that of the last attempt.\n"
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
    if (status != 0) std::exit(status);  // all is said
  });
}

}  // namespace pipesim::exec
