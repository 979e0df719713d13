// `pipesim compare PREDICTED MEASURED...`: two runs side by side.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/outputs.h"
#include "sim/compare/comparison.h"
#include "sim/compare/rank_comparison.h"
#include "sim/flags/profile_flags.h"
#include "sim/report/html.h"
#include "sim/report/json.h"
#include "sim/report/report.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

struct CompareFlags {
  std::vector<std::string> files;
  ProfileFlags profile;
  Flag operations, html, figure;
  bool json = false;
};

std::vector<NamedFile> named_files(const CompareFlags& flags) {
  std::vector<NamedFile> files{{"--schedule", flags.profile.schedule}};
  for (std::size_t i = 0; i < flags.files.size(); ++i) {
    files.push_back({i == 0 ? "PREDICTED" : "MEASURED", flags.files[i]});
  }
  files.push_back({"--operations", flags.operations, true});
  files.push_back({"--html", flags.html, true});
  files.push_back({"--figure", flags.figure, true});
  return files;
}

void run(const CompareFlags& flags) {
  if (flags.files.size() < 2) {
    throw input_error("compare: give a predicted trace and a measured one");
  }
  if (flags.html && flags.html->ends_with(".gz")) {
    throw input_error("--html: a page is written as plain HTML; omit .gz");
  }
  check_outputs(named_files(flags));
  // Opened first: an output that can't be written fails before the work.
  std::optional<OutputFile> operations;
  std::optional<OutputFile> html;
  if (flags.html) html.emplace(*flags.html);
  if (flags.operations) operations.emplace(*flags.operations, flags.operations->ends_with(".gz"));
  FigureFile figure(flags.figure);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + flags.files.front());
  ReadOptions options;
  options.inputs = true;
  options.samples = flags.html.has_value();  // the page has curves
  const ProfileOptions said = profile_options(flags.profile);
  options.profile = said;
  if (!is_folder(flags.files.front())) {  // one file is of one pipeline
    options.profile.ranks.clear();
    options.profile.replica.reset();
  }
  const RecordedRun predicted = read_run({flags.files.front()}, options);
  progress->show("reading " + flags.files[1]);
  options.profile = said;
  if (said.program.empty()) options.profile.program = predicted.about.program;
  const RecordedRun measured = read_run({flags.files.begin() + 1, flags.files.end()}, options);
  check_that_it_counts(said, {&measured, &predicted});
  progress->show("comparing");
  const bool are_inputs = predicted.inputs || measured.inputs;
  const std::string apart = are_inputs ? "" : stages_differ(predicted, measured);
  if (!apart.empty() && (flags.operations || flags.html)) {
    throw input_error(fmt::format("{}: it is about actions, of which none is compared: {}",
                                  flags.operations ? "--operations" : "--html", apart));
  }
  const Comparison comparison =
      apart.empty() ? compare(predicted, measured) : compare_ranks(predicted, measured);
  if (operations) operations->write(operations_csv(comparison));
  if (html) html->write(comparison_html(predicted, measured, comparison));
  if (operations) operations->commit();
  if (html) html->commit();
  if (figure.is_wanted()) figure.write({timelines_of(predicted, measured, comparison)});
  progress.reset();
  print(flags.json ? comparison_json(predicted, measured, comparison)
                   : comparison_report(predicted, measured, comparison, standard_output()));
  if (html && !flags.json)
    print(fmt::format("Page: {} (open it in a browser)\n", printable(html->path())));
  if (!flags.json) print(figure.told());
}

}  // namespace

void set_up_compare(CommandLine& command) {
  auto flags = std::make_shared<CompareFlags>();
  command.add_flags("",
                    {{"traces", &flags->files, "FILE", "PREDICTED, then MEASURED, or folders"}});
  command.add_flags("Input", profile_flag_help(flags->profile));
  command.add_flags(
      "Output",
      {{"--operations", &flags->operations, "FILE.csv", "writes each action's times and lateness"},
       {"--html", &flags->html, "FILE.html", "writes the report as an HTML page"},
       {"--figure", &flags->figure, "FILE.svg|FILE.png", "draws both timelines as a figure"},
       {"--json", &flags->json, "prints the result as one JSON object"}});
  command.set_work([flags] { run(*flags); });
  command.set_footer(
      "Traces come from pipesim, pipeexec or PyTorch's profiler; a profile of several\n"
      "ranks is one run in as many files, or in a folder. Either side may be any of\n"
      "these, and is labelled accordingly. --schedule defaults to PREDICTED's.\n"
      "\n"
      "Examples:\n"
      "  pipesim compare predicted.json measured.json --html report.html\n"
      "  pipesim compare predicted.json rank0.json.gz rank1.json.gz --json\n"
      "  pipesim compare before/ after/ --schedule order.csv");
}

}  // namespace pipesim::cli
