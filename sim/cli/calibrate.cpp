// `pipesim calibrate TRACE... -o costs.json`: costs from recorded runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "sim/calibrate/calibration.h"
#include "sim/cli/commands.h"
#include "sim/cli/input_commands.h"
#include "sim/cli/outputs.h"
#include "sim/cli/run_limits.h"
#include "sim/compare/launch_gaps.h"
#include "sim/flags/profile_flags.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

struct CalibrateFlags {
  std::vector<std::string> traces;
  ProfileFlags profile;
  Flag output;
  bool quiet = false;
};

void check_output(const CalibrateFlags& flags) {
  if (flags.output->ends_with(".gz")) {
    throw input_error("-o: costs are written as plain JSON; omit .gz");
  }
  std::vector<NamedFile> files;
  for (const std::string& trace : flags.traces) files.push_back({"a trace to be read", trace});
  files.push_back({"--schedule", flags.profile.schedule});
  files.push_back({"-o", flags.output, true});
  check_outputs(files);
}

std::string heading(const std::vector<RecordedRun>& runs, int width) {
  std::string out;
  for (const RecordedRun& run : runs) {
    const std::string line = fmt::format(
        "{} {}: {}, {}, {}, {} {}", out.empty() ? "Calibrated from" : "and", printable(run.name),
        run.about.schedule.empty() ? "a schedule" : printable(run.about.schedule),
        plural(run.ranks, "rank"), plural(run.microbatches, "microbatch"),
        plural(static_cast<std::int64_t>(run.iterations.size()), "iteration"),
        name_of(run.about.source));
    out += wrap(line, width) + "\n";
  }
  return out;
}

// A time with the spread of its samples; blank if there is none.
std::string cell(const TableUnit& unit, std::int64_t time_ns, const std::optional<Spread>& spread) {
  std::string range;
  if (spread) {
    const double least = static_cast<double>(spread->p10_ns) / unit.ns;
    const double most = static_cast<double>(spread->p90_ns) / unit.ns;
    range = fmt::format("{0:.{2}f}-{1:.{2}f}", least, most, most < 1000 ? unit.decimals : 0);
  }
  return fmt::format(" {:>7} {:<11}", unit.text(time_ns), range);
}

// Layers or stages, one per line: the costs, and the samples' p10-p90. If B was not measured in two
// parts, each has half of its spread, and of its time.
std::string costs_table(const CostsFile& costs) {
  const std::vector<StageCosts>& entries = costs.layers.empty() ? costs.costs.stages : costs.layers;
  const Provenance& provenance = *costs.calibration;
  std::int64_t longest = 0;
  std::size_t name_width = 5;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const StageCosts& entry = entries[i];
    longest = std::max({longest, entry.forward_ns, entry.backward_ns()});
    name_width = std::max(name_width, printable(provenance.entries[i].name).size());
  }
  TableUnit unit = table_unit(longest);
  if (unit.ns == 1e3) unit.decimals = 1;
  std::string out = fmt::format("\n{:<{}}", costs.layers.empty() ? "stage" : "layer", name_width);
  for (const char* kind : {"F", "I", "W"}) {
    out += fmt::format(" {:>7} {:<11}", fmt::format("{}, {}", kind, unit.name), "p10-p90");
  }
  out += "samples\n";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Provenance::Entry& from = provenance.entries[i];
    std::int64_t samples = 0;
    for (const auto* spread :
         {&from.forward, &from.backward_input, &from.backward_weight, &from.backward}) {
      if (*spread && (samples == 0 || (*spread)->samples < samples)) samples = (*spread)->samples;
    }
    std::optional<Spread> half;
    if (from.backward) half = {samples, from.backward->p10_ns / 2, from.backward->p90_ns / 2};
    const auto or_half = [&](const std::optional<Spread>& own) { return own ? own : half; };
    out += fmt::format("{:<{}}{}{}{}{:>7}\n", printable(from.name), name_width,
                       cell(unit, entries[i].forward_ns, from.forward),
                       cell(unit, entries[i].backward_input_ns, or_half(from.backward_input)),
                       cell(unit, entries[i].backward_weight_ns, or_half(from.backward_weight)),
                       format_count(samples));
  }
  return out;
}

std::string link_text(const Link& link) {
  const std::string bandwidth =
      link.bytes_per_second
          ? fmt::format(", {:.2f} GB/s", static_cast<double>(*link.bytes_per_second) / 1e9)
          : "";
  return format_time(link.latency_ns) + bandwidth;
}

// For each rank, or for all layers together.
std::string closing_text(const CostsFile& costs, std::int64_t StageCosts::*of_layer,
                         const std::optional<std::int64_t>& every,
                         const std::vector<std::int64_t>& by_rank) {
  if (every) return format_time(*every) + " per rank";
  if (!by_rank.empty()) {
    const auto [least, most] = std::ranges::minmax(by_rank);
    return fmt::format("{} to {} per rank", format_time(least), format_time(most));
  }
  std::int64_t sum = 0;
  for (const StageCosts& layer : costs.layers) sum += layer.*of_layer;
  return sum == 0 ? "none" : format_time(sum) + " for all layers";
}

std::string group_text(const std::optional<GroupCosts>& group, std::string_view name) {
  return group ? fmt::format("          {} {}\n", name, format_time(group->latency_ns)) : "";
}

std::string save_text(const SaveCosts& save, std::int64_t checkpoints) {
  const auto rate = [](const std::optional<std::int64_t>& bytes_per_second) {
    return bytes_per_second
               ? fmt::format("{:.2f} GB/s", static_cast<double>(*bytes_per_second) / 1e9)
               : "unlimited";
  };
  std::string out = fmt::format("save      storage {}, sync {} per rank, published in {}",
                                rate(save.bytes_per_second), format_time(save.sync_ns),
                                format_time(save.publish_ns));
  if (save.copy_bytes_per_second) {
    out += fmt::format("; copied at {}", rate(save.copy_bytes_per_second));
  }
  return out + fmt::format("; {}\n", plural(checkpoints, "checkpoint"));
}

std::string lines(const Calibration& calibration) {
  const CostsFile& costs = calibration.costs;
  const Provenance& provenance = *costs.calibration;
  std::string out = "\n";
  if (provenance.transfers) {
    out += fmt::format(
        "p2p       {}; {} of {} transfers count, {} to {}\n", link_text(costs.costs.p2p),
        format_count(provenance.transfers->samples), format_count(calibration.transfers),
        format_time(provenance.transfers->p10_ns), format_time(provenance.transfers->p90_ns));
    if (costs.receive_ns > 0) {
      out += fmt::format("          a message occupies its receiver for {} more\n",
                         format_time(costs.receive_ns));
    }
    for (const auto& [edge, link] : costs.costs.edges) {
      out += fmt::format("          rank {} to {}: {}\n", edge.first, edge.second, link_text(link));
    }
  }
  if (const auto& replicas = costs.costs.replicas) {
    out += fmt::format("replicas  {} per step; {} count\n",
                       link_text({replicas->latency_ns, replicas->bytes_per_second}),
                       plural(provenance.replicas->samples, "collective"));
  }
  out += fmt::format(
      "closing   reduction {}, optimizer {}\n",
      closing_text(costs, &StageCosts::reduce_gradients_ns, costs.reduce_gradients_ns,
                   costs.costs.reduce_gradients_ns),
      closing_text(costs, &StageCosts::optimizer_ns, costs.optimizer_ns, costs.costs.optimizer_ns));
  out += group_text(costs.costs.tied_gradients, "tied gradients");
  out += group_text(costs.costs.gradient_norm, "norm of gradients");
  if (costs.costs.save) out += save_text(*costs.costs.save, calibration.checkpoints);
  return out;
}

std::string sentences(const char* heading, const std::vector<std::string>& list, int width) {
  if (list.empty()) return {};
  std::string out = fmt::format("\n{}\n", heading);
  for (const std::string& one : list) out += wrap("  " + printable(one), width) + "\n";
  return out;
}

// Where ranks started actions later than they could, which their times and messages include.
std::vector<std::string> late_launches(const std::vector<RecordedRun>& runs) {
  constexpr double least = 0.01;  // of an iteration
  std::vector<std::string> found;
  for (const RecordedRun& run : runs) {
    if (!has_few_spans(run)) continue;
    const LaunchLoss late = launch_loss(run);
    const std::int64_t iteration_ns = run.iterations[run.median_iteration()].makespan_ns;
    if (static_cast<double>(late.ns) < least * static_cast<double>(iteration_ns)) continue;
    found.push_back(fmt::format(
        "{}: launches: ranks start actions later than they could, which costs {} of an iteration "
        "of {}; rank {} most, {} by {}; times of its stages, and of messages to it, include that",
        run.name, format_time(late.ns), format_time(iteration_ns), late.rank, to_text(late.action),
        format_time(late.action_gap_ns)));
  }
  return found;
}

void run(const CalibrateFlags& flags, const CommandLine& command) {
  check_output(flags);
  if (const auto trace = one_input_run(flags.traces, command, {"traces", "--output", "--quiet"})) {
    return calibrate_input_run(*trace, *flags.output, flags.quiet);
  }
  OutputFile output(*flags.output);
  std::optional<Progress> progress(std::in_place);
  progress->show("reading traces");
  ReadOptions options;
  options.layers = true;
  options.profile = profile_options(flags.profile);
  const std::vector<RecordedRun> runs = read_runs(flags.traces, options);
  std::vector<const RecordedRun*> all;
  for (const RecordedRun& run : runs) all.push_back(&run);
  check_that_it_counts(options.profile, all);
  const Calibration calibration = calibrate(runs);
  output.write(to_json(calibration.costs));
  output.commit();
  progress.reset();
  if (flags.quiet) return;

  const int width = standard_output().width;
  std::string warnings;
  for (const RecordedRun& run : runs) warnings += run.warnings.text();
  const Provenance& provenance = *calibration.costs.calibration;
  std::vector<std::string> doubts = late_launches(runs);
  doubts.insert(doubts.end(), calibration.doubts.begin(), calibration.doubts.end());
  print(heading(runs, width) + costs_table(calibration.costs) + lines(calibration) +
        sentences("not estimated", provenance.notes, width) + sentences("doubtful", doubts, width));
  if (!warnings.empty()) print("\nwarnings\n" + warnings);
  print(fmt::format("\nCosts: {} (for pipesim --costs)\n", printable(*flags.output)));
}

}  // namespace

void set_up_calibrate(CommandLine& command) {
  auto flags = std::make_shared<CalibrateFlags>();
  command.add_flags(
      "", {FlagHelp("traces", &flags->traces, "TRACE", "runs of one model, see below").required(),
           FlagHelp("-o,--output", &flags->output, "FILE.json", "costs.json to write").required(),
           FlagHelp("--quiet", &flags->quiet, "prints no report")});
  command.add_flags("Input", profile_flag_help(flags->profile));
  command.set_work([flags, &command] { run(*flags, command); });
  command.set_footer(
      "Each trace of pipeexec is one run; several give more samples. The profiles that\n"
      "PyTorch writes, one per rank, are one run. Traces with layers give costs by\n"
      "layer, usable with any --layout; others give costs by stage.\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 2 pipeexec --schedule gpipe --microbatches 4 --trace run.json\n"
      "  pipesim calibrate run.json -o costs.json\n"
      "  pipesim --schedule interleaved --stages 2 --microbatches 16 --costs costs.json");
}

}  // namespace pipesim::cli
