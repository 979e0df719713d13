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

FitStart start_of(const FitFlags& flags) {
  if (!flags.cluster) {
    throw input_error(
        fmt::format("--cluster is missing: where the runs were measured, a file or one of {}",
                    fmt::join(known_clusters(), ", ")));
  }
  return {*flags.cluster, flags.software};
}

std::vector<PredictedRun> predict_all(const Cluster& cluster,
                                      const std::vector<MeasuredIteration>& runs) {
  std::vector<PredictedRun> all;
  for (const MeasuredIteration& run : runs) all.push_back(predict_on(cluster, run.request));
  return all;
}

FittedCluster fitted_to(const RunTable& table, const std::vector<MeasuredIteration>& runs,
                        const Cluster& cluster) {
  try {
    return fit(runs, cluster);
  } catch (const Error& error) {
    throw Error(error.cause(), fmt::format("{}: {}", table.file, error.what()));
  }
}

void run_fit(const FitFlags& flags) {
  const auto file = [](const Flag& flag) { return flag && names_file(*flag) ? flag : Flag(); };
  check_outputs({{"RUNS.csv", flags.runs},
                 {"--cluster", file(flags.cluster)},
                 {"--software", file(flags.software)},
                 {"-o", flags.output, true}});
  const FitStart start = start_of(flags);
  const Cluster cluster = find_start(start);
  const RunTable table = read_run_table(*flags.runs);
  std::optional<Progress> progress(std::in_place);
  progress->show("predicting the runs");
  const MeasuredRuns measured = measured_runs(table, start);
  const std::vector<MeasuredIteration>& runs = measured.runs;
  std::optional<OutputFile> output;
  if (flags.output) output.emplace(*flags.output);
  progress->show("fitting");
  const FittedCluster fitted = fitted_to(table, runs, cluster);
  const std::string name =
      flags.output ? std::filesystem::path(*flags.output).stem().string() : cluster.name;
  const std::string text = cluster_file(
      start, {name, std::filesystem::path(table.file).filename().string()}, fitted, cluster);
  FitView view{start, table, runs, measured.notes,           cluster, fitted,
               {},    {},    {},   flags.output.value_or("")};
  view.before = predict_all(cluster, runs);
  // The report shows the file's predictions.
  view.after = predict_all(parse_cluster(text, flags.output.value_or("the fitted cluster")), runs);
  progress->show("choosing the next run to measure");
  view.next = next_run(table, runs, start, fitted, cluster);
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
      {FlagHelp("runs", &flags->runs, "RUNS.csv", "measured iterations, one per row").required(),
       {"--cluster", &flags->cluster, "NAME|FILE", "where they ran; `pipesim clusters` lists them",
        known_clusters},
       {"--software", &flags->software, "NAME|FILE", "trainer; default the device's",
        known_software}});
  command.add_flags("Output", {{"-o,--output", &flags->output, "FILE.json",
                                "writes the cluster, for --cluster FILE.json"},
                               {"--json", &flags->json, "prints one JSON object"}});
  command.set_work([flags] { run_fit(*flags); });
  command.set_footer(
      "RUNS.csv has a header and three rows or more. Columns are named like flags:\n"
      "model, stages, microbatches or global_batch, schedule, virtual_stages,\n"
      "micro_batch_size, sequence_length, tensor_parallel, sequence_parallel,\n"
      "data_parallel, zero, recompute, and so on; and seconds, an iteration's time.\n"
      "peak_bytes, peak_gib or peak_gb is the memory of the fullest rank. trace is a\n"
      "recorded run, or a folder of a profile's files: its forwards, backwards and\n"
      "messages count, too, and so does its median iteration without seconds. Two\n"
      "runs with traces may be enough. An empty cell means the flag is not given.\n"
      "\n"
      "Fits, as far as the runs determine them: efficiency, elementwise_traffic, the\n"
      "host's times, p2p_overhead, the share of network cards and the rates within a\n"
      "node; and from three or more peaks activation_memory, state_bytes and\n"
      "reserved_memory. All else stays as it was.\n"
      "\n"
      "Examples:\n"
      "  pipesim fit runs.csv --cluster dgx-h100 --software nanotron -o mine.json\n"
      "  pipesim --schedule 1f1b --stages 4 --microbatches 32 --model llama-3-8b\n"
      "      --cluster mine.json --tensor-parallel 2");
}

}  // namespace pipesim::cli
