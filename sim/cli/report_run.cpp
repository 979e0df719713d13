// `pipesim report TRACE...`: one run, as its files tell it.
#include <memory>

#include "sim/cli/commands.h"
#include "sim/input/profile_flags.h"
#include "sim/report/run_report.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> files;
  ProfileFlags profile;
};

void report_run(const ReportFlags& flags) {
  if (flags.files.empty()) throw input_error("report: give a trace, or one of each rank");
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + flags.files.front());
  ReadOptions options;
  options.samples = false;
  options.profile = profile_options(flags.profile);
  const RecordedRun run = read_run(flags.files, options);
  check_that_it_counts(options.profile, {&run});
  progress.reset();
  const Terminal terminal = standard_output();
  print(bold(wrap(printable(run_verdict(run)), terminal.width), terminal.colour) + "\n\n" +
        run_report(run, terminal));
  const std::string warnings = run.warnings.text();
  if (!warnings.empty()) print("\n" + warnings);
}

}  // namespace

void add_report(CommandLine& program) {
  auto flags = std::make_shared<ReportFlags>();
  CommandLine& command = program.add_command("report", "says what one recorded run did");
  command.add_flags("", {{"traces", &flags->files, "FILE", "of one run, of each rank one or all"}});
  command.add_flags("Input", profile_flag_help(flags->profile));
  command.set_work([flags] { report_run(*flags); });
  command.set_footer(
      "Traces are of pipesim, pipeexec or PyTorch's profiler.\n"
      "\n"
      "Examples:\n"
      "  pipesim report run.json\n"
      "  pipesim report rank0.json.gz rank1.json.gz --schedule order.csv");
}

}  // namespace pipesim::cli
