// `pipesim report TRACE...`: one run, as its files tell it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/profile_schedule.h"
#include "sim/compare/launch_gaps.h"
#include "sim/report/run_report.h"
#include "sim/request/what_if.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> files;
  Flag schedule;
};

// What holds the run up, as whatif and partition try it otherwise. A run of which costs can't be
// told says why.
std::string limits_of(const RecordedRun& run, const ReportFlags& flags, int width) {
  constexpr std::size_t most_spans = 100'000;  // of an iteration: it is simulated again and again
  if (run.iterations.empty()) return {};
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  if (iteration.end - iteration.begin > most_spans) return {};
  LimitsContext context;
  context.makespan_ns = iteration.makespan_ns;
  context.microbatches = run.microbatches;
  // Names of actions that a flag gives are not whatif's to have.
  if (!flags.schedule) context.program = {"pipesim", "whatif"};
  for (const std::string& file : flags.files) {
    if (!flags.schedule) context.program.push_back(shell_word(file));
  }
  try {
    const RecordedBasis basis(run);
    context.is_async = basis.is_async();
    if (basis.has_layers() && flags.files.size() == 1) {
      context.partition = {"pipesim", "partition", "--measured", shell_word(flags.files.front())};
    }
    std::vector<Limit> limits = basis.limits();
    limits.push_back({LimitKind::launch, launch_loss_ns(run), {}});
    std::ranges::stable_sort(limits, std::greater(), &Limit::gain_ns);
    return limits_report(limits, context, width);
  } catch (const Error& error) {
    return wrap(fmt::format("What limits it is not told: {}\n", error.what()), width);
  }
}

void report_run(const ReportFlags& flags) {
  if (flags.files.empty()) throw input_error("report: give a trace, or one of each rank");
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + flags.files.front());
  ReadOptions options;
  options.samples = false;
  options.layers = true;
  options.program = profile_program(flags.schedule);
  const RecordedRun run = read_run(flags.files, options);
  check_profile_schedule(flags.schedule, run);
  progress.reset();
  const Terminal terminal = standard_output();
  print(bold(wrap(printable(run_verdict(run)), terminal.width), terminal.colour) + "\n\n" +
        run_report(run, terminal));
  if (const std::string taken = taken_line(run); !taken.empty()) {
    print(wrap(taken, terminal.width));
  }
  print("\n" + limits_of(run, flags, terminal.width));
  const std::string warnings = run.warnings.text();
  if (!warnings.empty()) print("\n" + warnings);
}

}  // namespace

void add_report(CommandLine& program) {
  auto flags = std::make_shared<ReportFlags>();
  CommandLine& command = program.add_command("report", "says what one recorded run did");
  command.add_flags("", {{"traces", &flags->files, "FILE", "of one run, of each rank one or all"}});
  command.add_flags("Input", {profile_schedule_flag(&flags->schedule)});
  command.set_work([flags] { report_run(*flags); });
  command.set_footer(
      "Traces are of pipesim, pipeexec or PyTorch's profiler.\n"
      "\n"
      "Examples:\n"
      "  pipesim report run.json\n"
      "  pipesim report rank0.json.gz rank1.json.gz --schedule order.csv");
}

}  // namespace pipesim::cli
