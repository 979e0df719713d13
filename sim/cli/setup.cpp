#include "sim/cli/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/cost/estimate/replicas.h"
#include "sim/cost/layout.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

// One value for every stage, or one a stage.
template <typename Parse, typename Store>
void fill_stages(std::vector<StageCosts>& stages, const std::string& text, std::string_view name,
                 Parse parse, Store store) {
  const auto parts = split(text, ',');
  if (parts.size() != 1 && parts.size() != stages.size()) {
    throw input_error(
        fmt::format("{}: {} for {}; give one value, or one a virtual stage", name,
                    plural(static_cast<std::int64_t>(parts.size()), "value"),
                    plural(static_cast<std::int64_t>(stages.size()), "virtual stage")));
  }
  std::int64_t value = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s < parts.size()) value = parse(parts[s], name);
    store(stages[s], value);
  }
}

// Keeps the tokens of an iteration within 64 bits.
void check_tokens(const Training& training, int microbatches) {
  constexpr double most = 1e18;
  const double tokens = static_cast<double>(microbatches) *
                        static_cast<double>(training.micro_batch_size) *
                        static_cast<double>(training.sequence_length) * training.data_parallel;
  if (tokens <= most) return;
  throw input_error(fmt::format("{} of {} x {} in {} are more than {:g} tokens; use fewer",
                                plural(microbatches, "microbatch"), training.micro_batch_size,
                                plural(training.sequence_length, "token"),
                                plural(training.data_parallel, "replica"), most));
}

// The flags that each give one of the costs.
std::vector<FlagHelp> single_costs(CostFlags& flags) {
  return {
      {"--forward", &flags.forward, "T", "time of a forward; default 1ms"},
      {"--backward", &flags.backward, "T", "full backward, halved into I and W; default 2ms"},
      {"--backward-input", &flags.backward_input, "T", "time of an input gradient; default 1ms"},
      {"--backward-weight", &flags.backward_weight, "T", "time of a weight gradient; default 1ms"},
      {"--activation-bytes", &flags.activation_bytes, "BYTES",
       "kept from forward to backward; default 0"},
      {"--p2p-latency", &flags.p2p_latency, "T", "of a hop between ranks; default 0"},
      {"--p2p-bytes", &flags.p2p_bytes, "BYTES", "sent to the next stage, and back; default 0"},
      {"--p2p-bandwidth", &flags.p2p_bandwidth, "RATE", "of a link; default unlimited"},
      {"--compute-slowdown", &flags.compute_slowdown, "10%",
       "of compute while a transfer overlaps it; default 0"}};
}

void refuse_single_costs(CostFlags flags, std::string_view other) {
  if (const std::string name = first_given(single_costs(flags)); !name.empty()) {
    throw input_error(fmt::format("{} and {} both give costs; keep one", name, other));
  }
}

}  // namespace

void add_schedule_flags(CommandLine& command, ScheduleFlags& flags, bool with_name) {
  const std::string group = "Schedule";
  if (with_name) {
    command.add_flags(group, {{"--schedule", &flags.schedule, "NAME|FILE",
                               "a name (`pipesim schedules` lists them) or file"}});
  }
  command.add_flags(
      group, {{"--stages", &flags.stages, "P", "pipeline ranks"},
              {"--microbatches", &flags.microbatches, "M", "microbatches an iteration"},
              {"--virtual-stages", &flags.virtual_stages, "V",
               "chunks a rank; default 1, looped schedules 2"},
              {"--group", &flags.group, "G", "microbatches a group of interleaved; default P"},
              {"--placement", &flags.placement, "loop|v|LIST",
               "loop, v or each stage's rank; default loop"}});
}

void add_cost_flags(CommandLine& command, CostFlags& flags) {
  add_model_flags(command, flags.model);
  const std::string group = "Costs, of a chunk and a microbatch; a list gives one a virtual stage";
  command.add_flags(group, single_costs(flags));
  command.add_flags(
      group,
      {{"--p2p", &flags.p2p, "MODE", "how results travel, see below; default async"},
       {"--eager-limit", &flags.eager_limit, "BYTES",
        "a smaller send completes by itself; default 0"},
       {"--costs", &flags.costs, "FILE.json", "all of these; format in traces/FORMAT.md"},
       {"--layout", &flags.layout, "3,2,2,2", "layers a virtual stage, or Megatron's layout"}});
}

CostSource::CostSource(const CostFlags& flags)
    : CostSource(flags, {}, flags.costs.value_or("the costs given")) {}

CostSource::CostSource(const CostFlags& flags, std::optional<CostsFile> file, std::string name)
    : flags_(flags), file_(std::move(file)), name_(std::move(name)) {
  if (flags.p2p) transfers_.mode = parse_p2p(*flags.p2p);
  if (flags.eager_limit) {
    transfers_.eager_limit_bytes = parse_bytes(*flags.eager_limit, "--eager-limit");
  }
  std::optional<Layout> layout;
  if (flags.layout) {
    layout = parse_layout(*flags.layout);
    layout_ = layout->layers;
  }
  const std::string of_model = first_model_flag(flags.model);
  if (!of_model.empty()) {
    if (flags.costs) {
      throw input_error(fmt::format("--costs and {} both give costs; keep one", of_model));
    }
    refuse_single_costs(flags, of_model);
    model_.emplace(flags.model);
    if (layout) check_letters(*layout, model_->model());
    return;
  }
  if (flags.costs) {
    refuse_single_costs(flags, "--costs");
    file_ = read_costs(*flags.costs);
  }
  if (file_) return;
  if (layout_) {
    throw input_error(
        "--layout: needs costs by layer; give --costs with a file of them, or --model");
  }
  if (flags.backward && (flags.backward_input || flags.backward_weight)) {
    throw input_error("--backward and --backward-input, --backward-weight exclude each other");
  }
}

Transfers CostSource::transfers_of(const ScheduleChoice& choice) const {
  Transfers transfers = transfers_;
  if (choice.lane == TransferLane::compute) return transfers;
  const P2p mode = choice.lane == TransferLane::rank ? P2p::fifo : P2p::edge_fifo;
  if (flags_.p2p && transfers.mode != mode) {
    throw input_error(fmt::format("--p2p {}: {} puts its transfers on streams of {}; leave it out",
                                  *flags_.p2p, choice.schedule.name, p2p_name(mode)));
  }
  transfers.mode = mode;
  return transfers;
}

BytesNeeded CostSource::bytes_needed() const {
  // Results, costs, metrics and the report; where events are queued, the program, its
  // streams and inputs, too.
  constexpr BytesNeeded simulation_needs{0, 24, 300, 1100};
  constexpr BytesNeeded event_needs{80, 0, 560, 600};
  const bool only_latency = transfers_.mode == P2p::async && !file_ && !model_ &&
                            !flags_.p2p_bytes && !flags_.compute_slowdown;
  BytesNeeded needed = simulation_needs;
  if (!only_latency) needed += event_needs;
  return needed;
}

std::optional<CostModel> CostSource::cost_model(int pipeline_ranks) const {
  if (!model_) return std::nullopt;
  return model_->with_ranks(pipeline_ranks);
}

PipelineShape CostSource::shape_of(const Schedule& schedule) const {
  const bool splits = std::ranges::any_of(
      schedule.actions.all(), [](const Action& action) { return action.kind == Kind::I; });
  return {schedule.placement, splits, layout_};
}

Costs CostSource::resolve(const Schedule& schedule,
                          const std::optional<std::vector<int>>& layout) const {
  const Placement& placement = schedule.placement;
  Costs costs;
  if (model_) {
    const CostModel model = model_->with_ranks(schedule.ranks());
    PipelineShape shape = shape_of(schedule);
    shape.layout = layout;
    costs = model.costs(shape);
    costs.check(placement, schedule.microbatches, name_of(model));
    check_tokens(model.training(), schedule.microbatches);
    return costs;
  }
  if (file_) {
    costs = file_->resolve(placement, layout);
  } else {
    costs.stages.assign(static_cast<std::size_t>(placement.stages()), usual_stage_costs());
    const auto fill = [&](const Flag& flag, std::string_view name, auto parse, auto store) {
      if (flag) fill_stages(costs.stages, *flag, name, parse, store);
    };
    fill(flags_.forward, "--forward", parse_time_ns,
         [](StageCosts& stage, std::int64_t ns) { stage.forward_ns = ns; });
    fill(flags_.backward, "--backward", parse_time_ns,
         [](StageCosts& stage, std::int64_t ns) { stage.split_backward(ns); });
    fill(flags_.backward_input, "--backward-input", parse_time_ns,
         [](StageCosts& stage, std::int64_t ns) { stage.backward_input_ns = ns; });
    fill(flags_.backward_weight, "--backward-weight", parse_time_ns,
         [](StageCosts& stage, std::int64_t ns) { stage.backward_weight_ns = ns; });
    fill(flags_.activation_bytes, "--activation-bytes", parse_bytes,
         [](StageCosts& stage, std::int64_t bytes) { stage.activation_bytes = bytes; });
    fill(flags_.p2p_bytes, "--p2p-bytes", parse_bytes,
         [](StageCosts& stage, std::int64_t bytes) { stage.output_bytes = bytes; });
    if (flags_.p2p_latency) {
      costs.p2p.latency_ns = parse_time_ns(*flags_.p2p_latency, "--p2p-latency");
    }
    if (flags_.p2p_bandwidth) {
      costs.p2p.bytes_per_second = parse_bytes_per_second(*flags_.p2p_bandwidth, "--p2p-bandwidth");
    }
    if (flags_.compute_slowdown) {
      costs.compute_slowdown_ppm =
          parse_slowdown_ppm(*flags_.compute_slowdown, "--compute-slowdown");
    }
  }
  costs.check(placement, schedule.microbatches, name_);
  return costs;
}

std::vector<StageCosts> CostSource::layers(const Schedule& schedule) const {
  if (file_) return file_->layers;
  const CostModel model = model_->with_ranks(schedule.ranks());
  const PipelineShape shape = shape_of(schedule);
  std::vector<StageCosts> all;
  for (int layer = 0; layer < model.model().layers(); ++layer) {
    all.push_back(model.layer_costs(layer, shape));
  }
  return all;
}

Schedule CostSource::complete(Schedule schedule) const {
  if (!model_) return schedule;
  const Training training = model_->with_ranks(schedule.ranks()).training();
  return with_replicas(std::move(schedule), training);
}

Trial trial_with(const CostSource& source) {
  Trial trial;
  trial.complete = [&source](Schedule schedule) { return source.complete(std::move(schedule)); };
  trial.costs = [&source](const Schedule& schedule) { return source.resolve(schedule); };
  trial.by_layer = source.by_layer();
  trial.transfers = source.transfers();
  trial.needed = source.bytes_needed();
  return trial;
}

std::optional<std::int64_t> memory_cap(const Flag& flag, const std::optional<CostModel>& model) {
  if (flag) {
    const std::int64_t bytes = parse_bytes(*flag, "--memory-cap");
    if (bytes == 0) {
      throw input_error(
          "--memory-cap: a rank of 0 bytes holds nothing; give what it may hold, such as 80GiB");
    }
    return bytes;
  }
  if (model) return model->cluster().device.memory_bytes;
  return std::nullopt;
}

}  // namespace pipesim::cli
