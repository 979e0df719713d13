// `pipesim report TRACE...`: reports one run, or a profile without a pipeline.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/input_pipeline_report.h"
#include "sim/cli/outputs.h"
#include "sim/cli/run_limits.h"
#include "sim/flags/profile_flags.h"
#include "sim/input_pipeline/predict/input_result_json.h"
#include "sim/report/event_report.h"
#include "sim/report/run_report.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/flame/stack_files.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> files;
  ProfileFlags profile;
  Flag flame, figure;
  bool json = false;
};

// Files in which no pipeline is known.
std::vector<EventTrace> read_events(const std::vector<std::string>& files) {
  std::vector<EventTrace> traces;
  for (const std::string& file : files) {
    traces.push_back(read_event_trace(file));
    if (!traces.back().slices.empty()) continue;
    throw input_error(
        fmt::format("{}: it holds {} and nothing with a duration; give the trace of a run", file,
                    plural(traces.back().events, "event")));
  }
  return traces;
}

std::string text_of(const RecordedRun& run, const Terminal& terminal) {
  return bold(wrap(printable(run_verdict(run)), terminal.width), terminal.colour) + "\n\n" +
         run_report(run, terminal);
}

class FlameFile {
 public:
  // A file that can't be written fails before the work.
  explicit FlameFile(const std::string& path)
      : format_(stack_format_of(path, "--flame")), file_(path, path.ends_with(".gz")) {}

  void write(StackCollector collector, const std::string& name) {
    const Stacks stacks = collector.take();
    if (stacks.lines.empty()) {
      throw input_error(name + ": nothing in it takes time, so there is no flame graph");
    }
    write_stacks(stacks, name, format_, file_);
    file_.commit();
  }

 private:
  StackFormat format_;
  OutputFile file_;
};

void report_run(const ReportFlags& flags) {
  if (flags.files.empty()) throw input_error("report: give a trace, or one of each rank");
  std::vector<NamedFile> files{{"--schedule", flags.profile.schedule}};
  for (const std::string& file : flags.files) files.push_back({"the trace", file});
  files.push_back({"--flame", flags.flame, true});
  files.push_back({"--figure", flags.figure, true});
  check_outputs(files);
  std::optional<FlameFile> flame;
  if (flags.flame) flame.emplace(*flags.flame);
  FigureFile figure(flags.figure);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + flags.files.front());
  ReadOptions options;
  options.inputs = true;
  options.samples = false;
  options.layers = true;
  options.profile = profile_options(flags.profile);
  const std::optional<RecordedRun> run = read_pipeline(flags.files, options);
  if (flags.json && !run) {
    throw input_error(
        "--json: no pipeline is known in these files, so there are no ranks to report; "
        "--schedule may name the actions");
  }
  std::vector<EventTrace> events;
  if (run) {
    check_that_it_counts(options.profile, {&*run});
  } else {
    events = read_events(files_of(flags.files));
  }
  if (flame) {
    StackCollector collector;
    if (run) collector.add(*run);
    for (const EventTrace& trace : events) {
      // Files may have processes and threads of the same names.
      if (events.size() > 1) collector.set_around(trace.name);
      collector.add(trace);
    }
    flame->write(std::move(collector), run ? run->name : events.front().name);
  }
  if (figure.is_wanted()) {
    if (!run) {
      throw input_error(
          "--figure: no pipeline is known in these files, so there is no timeline of ranks; "
          "--schedule may name the actions, and pipeview shows the files");
    }
    figure.write({{"", {timeline_of(*run)}, ""}});
  }
  progress.reset();
  if (flags.json) {
    Json json = run_report_json(*run);
    if (run->inputs) {
      json["limits"] = input_limits_json(find_input_limits(*run->inputs).limits);
      print(json.dump(2) + "\n");
      return;
    }
    const auto limits = run_limits(*run, flags.files, flags.profile);
    const bool has_limits = limits && limits->failure.empty();
    json["limits"] = has_limits ? run_limits_json(*limits) : Json(nullptr);
    json["no_limits_why"] = nullptr;
    if (!has_limits) {
      json["no_limits_why"] =
          limits ? limits->failure
                 : "the run has no whole iteration, or one too long to simulate again";
    }
    print(json.dump(2) + "\n");
    return;
  }
  const Terminal terminal = standard_output();
  Warnings warnings;
  if (run) {
    warnings.add(run->warnings);
    print(text_of(*run, terminal));
    print(wrap(taken_line(*run), terminal.width));
    if (run->inputs) {
      const InputRunLimits limits = find_input_limits(*run->inputs);
      print(wrap("\n" + input_limits_text(limits.limits, limits.steady_iteration_ns),
                 terminal.width));
    }
    const auto limits = run->inputs ? std::nullopt : run_limits(*run, flags.files, flags.profile);
    if (limits) print("\n" + run_limits_report(*limits, terminal.width));
  } else {
    std::vector<const EventTrace*> traces;
    for (const EventTrace& trace : events) {
      traces.push_back(&trace);
      warnings.add(trace.warnings);
    }
    print(event_report(traces, terminal));
  }
  print(figure.told());
  const std::string text = warnings.text();
  if (!text.empty()) print("\n" + text);
}

}  // namespace

void set_up_report(CommandLine& command) {
  auto flags = std::make_shared<ReportFlags>();
  command.add_flags(
      "", {{"traces", &flags->files, "FILE", "traces of one run: one file, or one per rank"}});
  command.add_flags("Input", profile_flag_help(flags->profile));
  command.add_flags("Output", {{"--flame", &flags->flame, "FILE.folded|FILE.json",
                                "writes time by stacks, for flame graphs"},
                               {"--figure", &flags->figure, "FILE.svg|FILE.png",
                                "draws the timeline as a figure"},
                               {"--json", &flags->json, "prints the run as one JSON object"}});
  command.set_work([flags] { report_run(*flags); });
  command.set_footer(
      "Traces from pipesim, pipeexec or PyTorch's profiler, or any Chrome trace.\n"
      "\n"
      "Examples:\n"
      "  pipesim report run.json\n"
      "  pipesim report rank0.json.gz rank1.json.gz --schedule order.csv\n"
      "  pipesim report run.json --flame run.speedscope.json");
}

}  // namespace pipesim::cli
