#include "sim/cli/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/cost/layout.h"
#include "sim/request/request.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

// The flags that each give one of the costs.
std::vector<FlagHelp> single_costs(CostFlags& flags) {
  return {
      {"--forward", &flags.forward, "T", "time of a chunk's forward; default 1ms a rank"},
      {"--backward", &flags.backward, "T", "full backward, halved into I and W; 2ms a rank"},
      {"--backward-input", &flags.backward_input, "T", "time of an input gradient; 1ms a rank"},
      {"--backward-weight", &flags.backward_weight, "T", "time of a weight gradient; 1ms a rank"},
      {"--overlapped", &flags.overlapped, "T", "an F and a B in one cell; default F + B"},
      {"--activation-bytes", &flags.activation_bytes, "BYTES",
       "kept from forward to backward; default 0"},
      {"--p2p-latency", &flags.p2p_latency, "T", "latency of a hop between ranks; default 0"},
      {"--p2p-bytes", &flags.p2p_bytes, "BYTES",
       "per message to the next stage or back; default 0"},
      {"--p2p-bandwidth", &flags.p2p_bandwidth, "RATE", "bandwidth of a link; default unlimited"},
      {"--compute-slowdown", &flags.compute_slowdown, "10%",
       "slows compute while transfers overlap; default 0"}};
}

void refuse_single_costs(CostFlags flags, std::string_view other) {
  if (const std::string name = first_given(single_costs(flags)); !name.empty()) {
    throw input_error(fmt::format("{} and {} both give costs; keep one", name, other));
  }
}

// One value, or several between commas.
template <typename Parse>
GivenCosts::Values values_of(const Flag& flag, std::string_view name, Parse parse) {
  GivenCosts::Values values;
  if (!flag) return values;
  for (const std::string_view part : split(*flag, ',')) values.push_back(parse(part, name));
  return values;
}

GivenCosts given_costs(const CostFlags& flags) {
  GivenCosts given;
  given.forward_ns = values_of(flags.forward, "--forward", parse_time_ns);
  given.backward_ns = values_of(flags.backward, "--backward", parse_time_ns);
  given.backward_input_ns = values_of(flags.backward_input, "--backward-input", parse_time_ns);
  given.backward_weight_ns = values_of(flags.backward_weight, "--backward-weight", parse_time_ns);
  given.overlapped_ns = values_of(flags.overlapped, "--overlapped", parse_time_ns);
  given.activation_bytes = values_of(flags.activation_bytes, "--activation-bytes", parse_bytes);
  given.output_bytes = values_of(flags.p2p_bytes, "--p2p-bytes", parse_bytes);
  if (flags.p2p_latency) {
    given.p2p.latency_ns = parse_time_ns(*flags.p2p_latency, "--p2p-latency");
  }
  if (flags.p2p_bandwidth) {
    given.p2p.bytes_per_second = parse_bytes_per_second(*flags.p2p_bandwidth, "--p2p-bandwidth");
  }
  if (flags.compute_slowdown) {
    given.compute_slowdown_ppm = parse_slowdown_ppm(*flags.compute_slowdown, "--compute-slowdown");
  }
  return given;
}

}  // namespace

std::vector<FlagHelp> schedule_flags_but_name(ScheduleFlags& flags) {
  return {
      {"--stages", &flags.stages, "P", "pipeline ranks"},
      {"--microbatches", &flags.microbatches, "M", "microbatches per iteration"},
      {"--virtual-stages", &flags.virtual_stages, "V",
       "chunks per rank; default 1, looped and V: 2"},
      {"--group", &flags.group, "G", "microbatches per group of interleaved; default P"},
      {"--overlap-experts", &flags.overlap_experts, "interleaved: F beside B, one more in flight"},
      {"--placement", &flags.placement, "loop|v|LIST",
       "loop, v or each stage's rank; default loop or v"}};
}

std::vector<FlagHelp> cost_flags(CostFlags& flags) {
  std::vector<FlagHelp> all = single_costs(flags);
  all.insert(
      all.end(),
      {{"--p2p", &flags.p2p, "MODE", "how results travel, see below; default async", p2p_names},
       {"--eager-limit", &flags.eager_limit, "BYTES", "smaller sends need no receiver; default 0"},
       {"--costs", &flags.costs, "FILE.json", "costs from a file; format in traces/FORMAT.md"},
       {"--layout", &flags.layout, "3,2,2,2", "layers per virtual stage, or Megatron's layout"}});
  return all;
}

void add_schedule_flags(CommandLine& command, ScheduleFlags& flags, bool with_name) {
  const std::string group = "Schedule";
  if (with_name) {
    command.add_flags(group, {{"--schedule", &flags.schedule, "NAME|FILE",
                               "a name (`pipesim schedules` lists them) or file", schedule_names}});
  }
  command.add_flags(group, schedule_flags_but_name(flags));
}

void add_cost_flags(CommandLine& command, CostFlags& flags, const std::string& of) {
  add_model_flags(command, flags.model);
  command.add_flags("Costs, " + of, cost_flags(flags));
}

void set_flags(const std::vector<FlagHelp>& flags, const FlagValues& values) {
  for (const FlagHelp& one : flags) {
    const auto found = values.find(one.name);
    if (found == values.end()) continue;
    if (const auto* text = std::get_if<Flag*>(&one.value)) {
      **text = found->second;
    } else if (const auto* given = std::get_if<bool*>(&one.value)) {
      **given = found->second == "on";
    }
  }
}

bool is_switch(const std::string& name) {
  ModelFlags model;
  ScheduleFlags schedule;
  const auto is_one = [&](const FlagHelp& flag) {
    return flag.name == name && std::holds_alternative<bool*>(flag.value);
  };
  return std::ranges::any_of(all_model_flags(model), is_one) ||
         std::ranges::any_of(schedule_flags_but_name(schedule), is_one);
}

std::string flags_text(const FlagValues& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += (text.empty() ? "" : " ") + name + (is_switch(name) ? "" : " " + value);
  }
  return text;
}

void refuse_other_costs(const CostFlags& flags, std::string_view flag) {
  refuse_single_costs(flags, flag);
  std::string other = first_model_flag(flags.model);
  if (other.empty() && flags.costs) other = "--costs";
  if (!other.empty()) {
    throw input_error(fmt::format("{} and {} both give costs; keep one", other, flag));
  }
}

void settle_schedule(const Flag& global_batch, CostRequest& costs, ScheduleFlags& schedule) {
  auto* const trained = std::get_if<TrainingRequest>(&costs.costs);
  if (schedule.overlap_experts && trained != nullptr && trained->model.has_experts()) {
    trained->training.overlaps_experts = true;  // pairs have the additional forward
    schedule.overlap_experts = false;
  }
  const auto* training = std::get_if<TrainingRequest>(&costs.costs);
  if (!global_batch || training == nullptr) return;  // it is a model's
  if (schedule.microbatches) {
    throw input_error("--global-batch: --microbatches says the same; omit one of them");
  }
  if (!schedule.stages && !schedule.has_order()) return;  // which is said to be missing
  const int ranks = schedule.stages ? parse_count(*schedule.stages, "--stages")
                    : schedule.own  ? schedule.own->ranks()
                                    : read_schedule(*schedule.schedule).ranks();
  schedule.microbatches = microbatches_of(*global_batch, training->replicas(ranks),
                                          training->training.micro_batch_size);
}

FlagsOutcome outcome_of(CostRequest costs, const Flag& global_batch, ScheduleFlags schedule,
                        int accumulate) {
  settle_schedule(global_batch, costs, schedule);
  if (accumulate > 1) {
    const int all = parse_count(*schedule.microbatches, "--global-batch");
    if (all % accumulate != 0) {
      throw input_error(fmt::format("--accumulate {}: does not divide {}", accumulate,
                                    plural(all, "microbatch")));
    }
    schedule.microbatches = std::to_string(all / accumulate);
  }
  PredictionRequest request;
  request.accumulate = accumulate;
  request.schedule = choose_schedule(schedule, costs.bytes_needed());
  request.costs = std::move(costs);
  const Prediction prediction = prepare(std::move(request)).predict();
  return {prediction.metrics.iteration_ends_ns.back(), prediction.peak_memory_bytes()};
}

CostRequest cost_request(const CostFlags& flags, std::optional<CostsFile> file, std::string name) {
  CostRequest request;
  request.name = std::move(name);
  if (flags.p2p) request.p2p = parse_p2p(*flags.p2p);
  if (flags.eager_limit) {
    request.eager_limit_bytes = parse_bytes(*flags.eager_limit, "--eager-limit");
  }
  std::optional<Layout> layout;
  if (flags.layout) {
    layout = parse_layout(*flags.layout);
    request.layout = layout->layers;
  }
  const std::string of_model = first_model_flag(flags.model);
  const auto only_replicas = [&] {
    ModelFlags others = flags.model;
    others.replicas = {};
    return first_model_flag(others).empty();
  };
  if (flags.costs && !of_model.empty() && only_replicas()) {
    Training& training = request.replicas.emplace();
    read_replicas(flags.model.replicas, training);
    check_replicas(training);
    tell(flags.model, drop_without_effect(training));
  } else if (!of_model.empty()) {
    if (flags.costs) {
      throw input_error(fmt::format("--costs and {} both give costs; keep one", of_model));
    }
    refuse_single_costs(flags, of_model);
    TrainingRequest training = training_request(flags.model);
    if (layout) check_letters(*layout, training.model);
    request.costs = std::move(training);
    return request;
  }
  if (flags.costs) {
    refuse_single_costs(flags, "--costs");
    file = read_costs(*flags.costs);
  }
  if (file) {
    request.costs = std::move(*file);
  } else {
    request.costs = given_costs(flags);
  }
  return request;
}

CostRequest cost_request(const CostFlags& flags) {
  return cost_request(flags, {}, flags.costs.value_or("the costs given"));
}

std::optional<std::int64_t> memory_cap(const Flag& flag, const std::optional<CostModel>& model) {
  std::optional<std::int64_t> bytes;
  if (flag) bytes = parse_bytes(*flag, "--memory-cap");
  return memory_cap(bytes, model);
}

}  // namespace pipesim::cli
