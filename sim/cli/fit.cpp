// `pipesim fit`: a cluster of one's own from a few measured iterations.
#include "sim/fit/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "sim/cli/commands.h"
#include "sim/cli/fit_report.h"
#include "sim/cost/hardware/presets.h"
#include "sim/fit/cluster_file.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/command/outputs.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

struct FitFlags {
  Flag runs, cluster, software, output;
  bool json = false;
};

// The file that is written names presets as its bases.
void require_preset(const Flag& given, std::string_view flag,
                    const std::vector<std::string>& known) {
  if (given && names_file(*given)) {
    throw input_error(
        fmt::format("{} {}: a fit starts from a preset, which its file names as its base; give "
                    "one of {}",
                    flag, printable(*given), fmt::join(known, ", ")));
  }
}

RunPlace place_of(const FitFlags& flags) {
  if (!flags.cluster) {
    throw input_error(fmt::format("--cluster is missing: where the runs were measured; known: {}",
                                  fmt::join(known_clusters(), ", ")));
  }
  require_preset(flags.cluster, "--cluster", known_clusters());
  require_preset(flags.software, "--software", known_software());
  return {*flags.cluster, flags.software};
}

Cluster preset_of(const RunPlace& place) {
  Cluster cluster = find_cluster(place.cluster);
  if (place.software) {
    DeviceSpec& device = cluster.device;
    device.software = find_software(*place.software, device.kind);
  }
  return cluster;
}

std::vector<PredictedRun> predict_all(const Cluster& cluster,
                                      const std::vector<MeasuredIteration>& runs) {
  std::vector<PredictedRun> all;
  for (const MeasuredIteration& run : runs) all.push_back(predict_on(cluster, run.request));
  return all;
}

void run_fit(const FitFlags& flags) {
  check_outputs({{"RUNS.csv", flags.runs}, {"-o", flags.output, true}});
  const RunPlace place = place_of(flags);
  const Cluster preset = preset_of(place);
  const RunTable table = read_run_table(*flags.runs);
  std::optional<Progress> progress(std::in_place);
  progress->show("predicting the runs");
  const std::vector<MeasuredIteration> runs = measured_runs(table, place);
  std::optional<OutputFile> output;
  if (flags.output) output.emplace(*flags.output);
  progress->show("fitting");
  const FittedCluster fitted = fit(runs, preset);
  const std::string name =
      flags.output ? std::filesystem::path(*flags.output).stem().string() : place.cluster;
  const std::string text = cluster_file({place.cluster, place.software.value_or(""), name,
                                         std::filesystem::path(table.file).filename().string()},
                                        fitted, preset);
  FitView view{place, table, runs, preset, fitted, {}, {}, {}, flags.output.value_or("")};
  view.before = predict_all(preset, runs);
  // What is reported is what the file predicts.
  view.after = predict_all(parse_cluster(text, flags.output.value_or("the fitted cluster")), runs);
  progress->show("looking for the run to measure next");
  view.next = next_run(table, runs, place, fitted, preset);
  if (output) {
    output->write(text);
    output->commit();
  }
  progress.reset();
  if (flags.json) {
    print(fit_json(view));
    return;
  }
  print(fit_report(view, standard_output().width));
  if (output) print(fmt::format("\nCluster: {} (for --cluster)\n", printable(output->path())));
}

}  // namespace

void set_up_fit(CommandLine& command) {
  auto flags = std::make_shared<FitFlags>();
  command.add_flags(
      "Input",
      {FlagHelp("runs", &flags->runs, "RUNS.csv", "measured iterations, a row each").required(),
       {"--cluster", &flags->cluster, "NAME", "where they ran; `pipesim clusters` lists them"},
       {"--software", &flags->software, "NAME", "what trained; default the device's"}});
  command.add_flags("Output", {{"-o,--output", &flags->output, "FILE.json",
                                "writes the cluster, for --cluster FILE.json"},
                               {"--json", &flags->json, "prints one JSON object"}});
  command.set_work([flags] { run_fit(*flags); });
  command.set_footer(
      "RUNS.csv has a header and three rows or more. Columns are called like flags:\n"
      "model, stages, microbatches or global_batch, schedule, virtual_stages,\n"
      "micro_batch_size, sequence_length, tensor_parallel, sequence_parallel,\n"
      "data_parallel, zero, recompute, and so on; and seconds, what an iteration took.\n"
      "peak_bytes, peak_gib or peak_gb is compared with what is predicted.\n"
      "An empty cell is a flag that is not given.\n"
      "\n"
      "Fitted are, as far as the runs tell them: efficiency, elementwise_traffic, the\n"
      "host's times, p2p_overhead, the share of network cards and the rates within a\n"
      "node. What they do not tell stays as the presets have it.\n"
      "\n"
      "Examples:\n"
      "  pipesim fit runs.csv --cluster dgx-h100 --software nanotron -o mine.json\n"
      "  pipesim --schedule 1f1b --stages 4 --microbatches 32 --model llama-3-8b\n"
      "      --cluster mine.json --tensor-parallel 2");
}

}  // namespace pipesim::cli
