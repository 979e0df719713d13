#include "sim/cli/layers_input.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "sim/calibrate/calibration.h"
#include "sim/cost/pipedream_graph.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

// The flag that gives the layers.
std::string source_of(const LayersFlags& flags) {
  const std::array<std::pair<std::string, bool>, 4> all{
      {{first_model_flag(flags.costs.model), !first_model_flag(flags.costs.model).empty()},
       {"--costs", flags.costs.costs.has_value()},
       {"--graph", flags.graph.has_value()},
       {"--measured", flags.measured.has_value()}}};
  std::string found;
  for (const auto& [name, is_given] : all) {
    if (!is_given) continue;
    if (!found.empty()) {
      throw input_error(fmt::format("{} and {} both give layers; keep one", found, name));
    }
    found = name;
  }
  if (found.empty()) {
    throw input_error(
        "no layers to deal out: give --model and --cluster, --costs with a file of layers, "
        "--graph with a profile of PipeDream's, or --measured with a trace");
  }
  return found;
}

void refuse_without(const std::string& source, const Flag& flag, std::string_view name,
                    std::string_view wanted) {
  if (!flag || source == wanted) return;
  throw input_error(fmt::format("{} belongs to {}, not to {}; omit it", name, wanted, source));
}

// Takes the schedule of a run, as far as other flags leave it open.
void follow(const RecordedRun& run, ScheduleFlags& schedule) {
  const auto fill = [](Flag& flag, const std::string& value) {
    if (!flag && !value.empty()) flag = value;
  };
  const bool is_own = !schedule.schedule && !schedule.stages;
  fill(schedule.schedule, run.about.schedule);
  fill(schedule.stages, std::to_string(run.ranks));
  fill(schedule.microbatches, std::to_string(run.microbatches));
  const int chunks = static_cast<int>(run.about.rank_of_stage.size()) / std::max(1, run.ranks);
  if (is_own && chunks > 1) fill(schedule.virtual_stages, std::to_string(chunks));
}

}  // namespace

void add_layers_flags(CommandLine& command, LayersFlags& flags) {
  CostFlags& costs = flags.costs;
  add_model_flags(command, costs.model);
  command.add_flags(
      "Layers from a file, instead of a model",
      {{"--costs", &costs.costs, "FILE.json", "costs by layer; format in traces/FORMAT.md"},
       {"--measured", &flags.measured, "TRACE", "calibrates from a run of pipeexec"},
       {"--graph", &flags.graph, "FILE.txt", "PipeDream's profile: a graph of layers"},
       {"--optimizer-multiple", &flags.optimizer_multiple, "N",
        "optimizer bytes per parameter byte; default 0"},
       {"--p2p-latency", &costs.p2p_latency, "T", "latency of a hop, with --graph; default 0"},
       {"--p2p-bandwidth", &costs.p2p_bandwidth, "RATE",
        "of a link, with --graph; default unlimited"}});
  command.add_flags("Transfers",
                    {{"--p2p", &costs.p2p, "MODE", "as of predict; default async", p2p_names},
                     {"--eager-limit", &costs.eager_limit, "BYTES",
                      "smaller sends need no receiver; default 0"}});
}

LayersInput read_layers(const LayersFlags& flags, ScheduleFlags& schedule) {
  const std::string source = source_of(flags);
  for (const auto& [flag, name] : {std::pair(&flags.optimizer_multiple, "--optimizer-multiple"),
                                   {&flags.costs.p2p_latency, "--p2p-latency"},
                                   {&flags.costs.p2p_bandwidth, "--p2p-bandwidth"}}) {
    refuse_without(source, *flag, name, "--graph");
  }
  LayersInput input;
  if (source == "--graph") {
    const std::int64_t multiple =
        flags.optimizer_multiple ? parse_count(*flags.optimizer_multiple, "--optimizer-multiple")
                                 : 0;
    PipedreamGraph graph = read_pipedream_graph(*flags.graph, multiple);
    input.name = *flags.graph;
    for (const PipedreamGraph::Node& node : graph.layers) {
      input.names.push_back(fmt::format("node{} {}", node.number, node.description));
    }
    input.file = std::move(graph.costs);
    if (flags.costs.p2p_latency) {
      input.file->costs.p2p.latency_ns = parse_time_ns(*flags.costs.p2p_latency, "--p2p-latency");
    }
    if (flags.costs.p2p_bandwidth) {
      input.file->costs.p2p.bytes_per_second =
          parse_bytes_per_second(*flags.costs.p2p_bandwidth, "--p2p-bandwidth");
    }
  } else if (source == "--measured") {
    ReadOptions options;
    options.layers = true;
    const auto run = read_native_run(*flags.measured, options);
    if (!run) {
      throw input_error(fmt::format(
          "--measured: {} is not a trace of ours; give one that pipeexec wrote of a training",
          *flags.measured));
    }
    input.name = *flags.measured;
    input.file = calibrate(std::span(&*run, 1)).costs;
    input.layout = run->about.layout;
    follow(*run, schedule);
  } else if (source == "--costs") {
    input.name = *flags.costs.costs;
    input.file = read_costs(*flags.costs.costs);
  }
  if (!input.file) return input;
  if (input.file->layers.empty()) {
    throw input_error(fmt::format(
        "{}: has times by stage, but only layers can be distributed; give {}", input.name,
        source == "--measured" ? "a trace that pipeexec wrote of a training" : "costs by layer"));
  }
  if (input.names.empty() && input.file->calibration) {
    for (const Provenance::Entry& entry : input.file->calibration->entries) {
      input.names.push_back(entry.name);
    }
  }
  return input;
}

}  // namespace pipesim::cli
