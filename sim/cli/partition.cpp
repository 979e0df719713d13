// `pipesim partition`: which layers each stage holds, balanced.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/layers_input.h"
#include "sim/cli/outputs.h"
#include "sim/cli/partition_report.h"
#include "sim/request/partition_request.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

struct PartitionFlags {
  ScheduleFlags schedule;
  LayersFlags layers;
  Flag layout, objective, trials, budget, memory_cap, output, write_costs;
  bool json = false;
};

Objective parse_objective(const Flag& flag) {
  if (!flag || *flag == "iteration") return Objective::iteration;
  if (*flag == "bottleneck") return Objective::bottleneck;
  throw input_error(
      fmt::format("--objective: unknown {}; give iteration or bottleneck", quote(*flag)));
}

std::chrono::nanoseconds time_of(const Flag& flag) {
  const std::int64_t ns = parse_time_ns(flag.value_or("10s"), "--budget");
  if (ns == 0) throw input_error("--budget: 0 leaves no time to search; give some, such as 10s");
  return std::chrono::nanoseconds(ns);
}

// Refuses a schedule of which not even one layout can be simulated in time.
void check_time(const ScheduleFlags& flags, std::chrono::nanoseconds time) {
  if (!flags.schedule || names_a_file(*flags.schedule)) return;
  const double actions = actions_of(family(*flags.schedule), parse_request(flags));
  if (actions <= static_cast<double>(actions_within(10 * time))) return;
  throw work_error(fmt::format(
      "--budget: time would run out before a layout of {:.3g} actions is simulated; give more",
      actions));
}

SearchLimits limits_of(const PartitionFlags& flags, const Budget& budget, Progress& progress) {
  SearchLimits limits;
  if (flags.trials) limits.trials = parse_count(*flags.trials, "--trials");
  limits.budget = &budget;
  limits.progress = [&progress](std::int64_t tried, std::int64_t makespan_ns) {
    if (tried % 32 != 0) return;
    progress.show(fmt::format("{} simulated, the best takes {}", plural(tried, "layout"),
                              format_time(makespan_ns)));
  };
  return limits;
}

void check_files(const PartitionFlags& flags) {
  const Flag& schedule = flags.schedule.schedule;
  const ModelFlags& model = flags.layers.costs.model;
  check_outputs({{"--schedule", schedule && names_a_file(*schedule) ? schedule : Flag()},
                 {"--layout", flags.layout},
                 {"--model", file_of(model.model)},
                 {"--cluster", file_of(model.cluster)},
                 {"--costs", flags.layers.costs.costs},
                 {"--measured", flags.layers.measured},
                 {"--graph", flags.layers.graph},
                 {"-o", flags.output, true},
                 {"--write-costs", flags.write_costs, true}});
}

// Names of layers, from a model or a file.
std::function<std::string(int)> names_of(const LayersInput& input,
                                         const std::optional<CostModel>& model) {
  if (model) return [shape = model->model()](int layer) { return shape.layer_name(layer); };
  if (input.names.empty()) return [](int layer) { return fmt::format("layer {}", layer); };
  return [names = input.names](int layer) {
    return printable(names[static_cast<std::size_t>(layer)]);
  };
}

void run(const PartitionFlags& flags) {
  const std::chrono::nanoseconds time = time_of(flags.budget);
  const Budget budget(time);
  check_files(flags);
  std::optional<Progress> progress(std::in_place);
  const Objective objective = parse_objective(flags.objective);
  const SearchLimits limits = limits_of(flags, budget, *progress);
  ScheduleFlags schedule_flags = flags.schedule;
  LayersInput input = read_layers(flags.layers, schedule_flags);
  if (flags.write_costs && !input.file) {
    throw input_error("--write-costs writes the layers of a file; a model has no such file");
  }
  CostFlags cost_flags = flags.layers.costs;
  cost_flags.costs.reset();
  cost_flags.layout = flags.layout;
  CostRequest costs = cost_request(cost_flags, input.file, input.name);
  settle_schedule(cost_flags.model.global_batch, costs, schedule_flags);
  const CostSource source(std::move(costs));
  check_time(schedule_flags, time);
  const ScheduleChoice choice = choose_schedule(schedule_flags, source.bytes_needed());
  const std::optional<CostModel> model = source.cost_model(choice.schedule.ranks());
  input.name = model ? name_of(*model) : std::filesystem::path(input.name).filename().string();

  PartitionProblem problem = partition_problem(source, choice, input.name);
  if (!problem.given && std::ssize(input.layout) == problem.schedule.stages() &&
      input.layout != problem.even) {
    problem.given = input.layout;
  }
  problem.memory_cap = memory_cap(flags.memory_cap, model);

  std::optional<OutputFile> output, costs_output;
  if (flags.output) output.emplace(*flags.output);
  if (flags.write_costs) costs_output.emplace(*flags.write_costs);
  const auto name = names_of(input, model);
  const Partition partition = find_partition(problem, objective, limits, name);
  const PartitionView view{input.name, model, choice, problem, partition, objective, name};
  if (output) {
    output->write(fmt::format("{}\n", fmt::join(partition.balanced.layout, ",")));
    output->commit();
  }
  if (costs_output) {
    costs_output->write(to_json(*input.file));
    costs_output->commit();
  }
  progress.reset();
  if (flags.json) {
    print(partition_json(view));
    return;
  }
  print(partition_report(view, standard_output()));
  if (output) print(fmt::format("Layout: {} (for --layout)\n", printable(output->path())));
  if (costs_output)
    print(fmt::format("Costs: {} (for --costs)\n", printable(costs_output->path())));
}

}  // namespace

void set_up_partition(CommandLine& command) {
  auto flags = std::make_shared<PartitionFlags>();
  add_schedule_flags(command, flags->schedule, true);
  command.add_flags(
      "Search",
      {{"--objective", &flags->objective, "NAME", "minimizes iteration (default) or bottleneck",
        [] {
          return std::vector<std::string>{"iteration", "bottleneck"};
        }},
       {"--layout", &flags->layout, "3,2,2,2", "a layout to start from; --measured has its own"},
       {"--memory-cap", &flags->memory_cap, "BYTES", "per rank; a model's default: a device's"},
       {"--trials", &flags->trials, "N", "most layouts to simulate; default 2000"},
       {"--budget", &flags->budget, "T", "longest search; default 10s"}});
  add_layers_flags(command, flags->layers);
  command.add_flags(
      "Output", {{"-o,--output", &flags->output, "FILE", "writes the layout, for --layout FILE"},
                 {"--write-costs", &flags->write_costs, "FILE.json",
                  "writes a file's layers as a costs.json"},
                 {"--json", &flags->json, "prints one JSON object"}});
  command.show_first({"--schedule", "--stages", "--microbatches", "--model", "--cluster", "--costs",
                      "--measured", "--graph", "--memory-cap", "--output", "--json"});
  command.set_work([flags] { run(*flags); });
  command.set_footer(
      "Examples:\n"
      "  pipesim partition --schedule 1f1b --stages 4 --microbatches 16\n"
      "      --graph examples/partition/resnet50_graph.txt --p2p-bandwidth 10GB/s\n"
      "  pipesim partition --schedule interleaved --stages 8 --microbatches 32\n"
      "      --model llama-3-8b --cluster dgx-h100 --recompute selective\n"
      "  pipesim partition --measured run.json -o layout.txt");
}

}  // namespace pipesim::cli
