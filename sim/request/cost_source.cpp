#include "sim/request/cost_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/cost/estimate/direct_exchange.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/cost/estimate/rounding.h"
#include "sim/cost/layout.h"
#include "sim/cost/recut.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/pair.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// One value for all stages, or one per stage.
template <typename Store>
void fill_stages(std::vector<StageCosts>& stages, const GivenCosts::Values& values,
                 std::string_view name, Store store) {
  if (values.empty()) return;
  if (values.size() != 1 && values.size() != stages.size()) {
    throw input_error(
        fmt::format("{}: {} for {}; give one value, or one per virtual stage", name,
                    plural(static_cast<std::int64_t>(values.size()), "value"),
                    plural(static_cast<std::int64_t>(stages.size()), "virtual stage")));
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    store(stages[s], values[std::min(s, values.size() - 1)]);
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

}  // namespace

CostSource::CostSource(CostRequest request) : request_(std::move(request)) {
  const GivenCosts* own = given();
  if (own == nullptr) return;
  if (request_.layout) {
    throw input_error(
        "--layout: needs costs by layer; give --costs with a file of them, or --model");
  }
  if (!own->backward_ns.empty() &&
      (!own->backward_input_ns.empty() || !own->backward_weight_ns.empty())) {
    throw input_error("--backward and --backward-input, --backward-weight exclude each other");
  }
}

Transfers CostRequest::transfers() const { return {p2p.value_or(P2p::async), eager_limit_bytes}; }

Transfers CostSource::transfers_of(const ScheduleChoice& choice) const {
  Transfers own = transfers();
  if (choice.schedule.lane == TransferLane::compute) return own;
  const P2p mode = choice.schedule.lane == TransferLane::rank ? P2p::fifo : P2p::edge_fifo;
  if (request_.p2p.value_or(mode) != mode) {
    throw input_error(fmt::format("--p2p {}: {} puts its transfers on streams of {}; omit it",
                                  p2p_name(own.mode), choice.schedule.name, p2p_name(mode)));
  }
  own.mode = mode;
  return own;
}

BytesNeeded CostRequest::bytes_needed(bool on_streams) const {
  // Memory for results, costs, metrics and the report; if events are queued, also the program, its
  // streams and inputs.
  constexpr BytesNeeded simulation_needs{0, 24, 300, 1100};
  constexpr BytesNeeded event_needs{80, 0, 560, 600};
  const auto* own = std::get_if<GivenCosts>(&costs);
  const bool only_latency = !on_streams && transfers().mode == P2p::async && own != nullptr &&
                            own->output_bytes.empty() && own->compute_slowdown_ppm == 0;
  BytesNeeded needed = simulation_needs;
  if (!only_latency) needed += event_needs;
  return needed;
}

std::optional<CostModel> CostSource::cost_model(int pipeline_ranks) const {
  if (model() == nullptr) return std::nullopt;
  return model()->with_ranks(pipeline_ranks);
}

PipelineShape CostSource::shape_of(const Schedule& schedule) const {
  const bool splits = std::ranges::any_of(
      schedule.actions.all(), [](const Action& action) { return action.kind == Kind::I; });
  return {schedule.placement, splits, request_.layout};
}

Costs CostSource::resolve(const Schedule& schedule,
                          const std::optional<std::vector<int>>& layout) const {
  const Placement& placement = schedule.placement;
  if (model() != nullptr) {
    const CostModel own = model()->with_ranks(schedule.ranks());
    PipelineShape shape = shape_of(schedule);
    shape.layout = layout;
    Costs costs = own.costs(shape);
    for (const TimeChange& change : request_.changes) apply(change, placement, costs);
    set_save(schedule, layout, costs);
    costs.check(placement, schedule.microbatches, name_of(own));
    check_tokens(own.training(), schedule.microbatches);
    return costs;
  }
  const CostsFile* own = file();
  Costs costs = own != nullptr ? own->resolve(placement, layout)
                               : by_stage(placement).resolve(placement, layout);
  return finish(std::move(costs), schedule, layout);
}

Costs CostSource::resolve_as(const Placement& given, const Schedule& schedule) const {
  if (by_layer()) return resolve(schedule);
  const Placement& placement = schedule.placement;
  const CostsFile cut = recut(by_stage(given), given, placement);
  return finish(cut.resolve(placement, request_.layout), schedule, request_.layout);
}

int CostSource::stages_told() const {
  if (by_layer()) return 0;
  if (file() != nullptr) return static_cast<int>(file()->costs.stages.size());
  const GivenCosts& own = *given();
  std::size_t most = 0;
  for (const auto* values :
       {&own.forward_ns, &own.backward_ns, &own.backward_input_ns, &own.backward_weight_ns,
        &own.overlapped_ns, &own.activation_bytes, &own.output_bytes}) {
    most = std::max(most, values->size());
  }
  return most > 1 ? static_cast<int>(most) : 0;
}

CostsFile CostSource::by_stage(const Placement& placement) const {
  const int stages = placement.stages();
  if (file() != nullptr) {
    const auto own = static_cast<int>(file()->costs.stages.size());
    if (own == stages) return *file();
    throw input_error(
        fmt::format("{}: has {}, not {}", request_.name, plural(own, "virtual stage"), stages));
  }
  CostsFile made;
  made.name = request_.name;
  Costs& costs = made.costs;
  const GivenCosts& own = *given();
  const int chunks = own.has_times() ? 1 : placement.virtual_stages();
  for (int stage = 0; stage < stages; ++stage) {
    costs.stages.push_back(usual_stage_costs(chunks == 1 ? 0 : placement.chunk_of(stage), chunks));
  }
  const auto fill = [&](const GivenCosts::Values& values, std::string_view name,
                        std::int64_t StageCosts::*field) {
    fill_stages(costs.stages, values, name,
                [&](StageCosts& stage, std::int64_t value) { stage.*field = value; });
  };
  fill(own.forward_ns, "--forward", &StageCosts::forward_ns);
  fill_stages(costs.stages, own.backward_ns, "--backward",
              [](StageCosts& stage, std::int64_t ns) { stage.split_backward(ns); });
  fill(own.backward_input_ns, "--backward-input", &StageCosts::backward_input_ns);
  fill(own.backward_weight_ns, "--backward-weight", &StageCosts::backward_weight_ns);
  fill_stages(costs.stages, own.overlapped_ns, "--overlapped",
              [](StageCosts& stage, std::int64_t ns) { stage.overlap_ns = ns; });
  fill(own.activation_bytes, "--activation-bytes", &StageCosts::activation_bytes);
  fill(own.output_bytes, "--p2p-bytes", &StageCosts::output_bytes);
  costs.p2p = own.p2p;
  costs.compute_slowdown_ppm = own.compute_slowdown_ppm;
  return made;
}

Costs CostSource::finish(Costs costs, const Schedule& schedule,
                         const std::optional<std::vector<int>>& layout) const {
  const Placement& placement = schedule.placement;
  if (file() != nullptr) {
    if (const auto training = replicas(schedule.ranks())) {
      check_exchanges_known(costs, request_.name);
      split_states(*training, costs);
      add_exchanges(*training, placement, costs);
    }
  }
  for (const TimeChange& change : request_.changes) apply(change, placement, costs);
  set_save(schedule, layout, costs);
  costs.check(placement, schedule.microbatches, request_.name);
  return costs;
}

// Without saves it does not matter how many ranks a file's costs of saves are for.
void CostSource::set_save(const Schedule& schedule, const std::optional<std::vector<int>>& layout,
                          Costs& costs) const {
  if (!request_.save) {
    costs.save.reset();
    return;
  }
  const SaveRequest& asked = *request_.save;
  if (!costs.save && !asked.bytes_per_second) {
    throw input_error(
        "--checkpoint-every: the storage rate is missing; give --storage, such as 2GB/s, or "
        "costs with save");
  }
  if (!costs.save) costs.save.emplace();
  SaveCosts& save = *costs.save;
  const auto ranks = static_cast<std::size_t>(schedule.ranks());
  if (asked.bytes) save.bytes.assign(ranks, *asked.bytes);
  if (asked.bytes_per_second) save.bytes_per_second = asked.bytes_per_second;
  if (asked.copy_bytes_per_second) save.copy_bytes_per_second = asked.copy_bytes_per_second;
  if (!save.bytes.empty()) return;
  const Placement& placement = schedule.placement;
  if (model() != nullptr) {
    const CostModel own = model()->with_ranks(schedule.ranks());
    PipelineShape shape = shape_of(schedule);
    shape.layout = layout;
    std::vector<std::int64_t> parameters = own.parameters(shape);
    // A matrix that both ends have is saved once.
    if (!placement.has(placement.rank_of(0), placement.stages() - 1)) {
      parameters.back() -= own.layer(own.model().layers() - 1).tied_parameters;
    }
    // Each rank writes its part: of routed experts among their own replicas.
    const Training& how = own.training();
    const std::vector<std::int64_t> experts = own.expert_parameters(shape);
    for (std::size_t s = 0; s < experts.size(); ++s) {
      parameters[s] += divide_up(experts[s] * how.replicas(), how.expert_replicas()) - experts[s];
    }
    fill_save_bytes(placement, parameters, how.replicas(), how.tensor_parallel, costs);
  } else {
    const auto training = replicas(schedule.ranks());
    fill_save_bytes(placement, {}, training ? training->replicas() : 1, 1, costs);
  }
  if (save.total_bytes() > 0) return;
  throw input_error(
      "--checkpoint-every: the size of a save is missing; give --checkpoint-bytes, or costs "
      "with the size of weights");
}

std::string_view CostSource::origin() const {
  if (model() != nullptr) return "model";
  if (file() == nullptr) return "flags";
  return file()->calibration ? "calibration" : "file";
}

Variation CostSource::measured_variation() const {
  Variation variation;
  if (file() != nullptr && file()->calibration) {
    variation.quantiles_ppm = file()->calibration->variation_ppm;
  }
  return variation;
}

std::vector<StageCosts> CostSource::layers(const Schedule& schedule) const {
  if (file() != nullptr) return file()->layers;
  const CostModel own = model()->with_ranks(schedule.ranks());
  const PipelineShape shape = shape_of(schedule);
  std::vector<StageCosts> all;
  for (int layer = 0; layer < own.model().layers(); ++layer) {
    all.push_back(own.layer_costs(layer, shape));
  }
  return all;
}

std::vector<int> CostSource::layout_of(const Schedule& schedule) const {
  if (!by_layer()) return {};
  if (model() != nullptr) {
    return model()->with_ranks(schedule.ranks()).layout(shape_of(schedule));
  }
  return resolve_layout(request_.layout, static_cast<int>(file()->layers.size()), schedule.stages(),
                        file()->name);
}

Schedule CostSource::complete(Schedule schedule) const {
  if (model() != nullptr && model()->training.overlaps_experts) {
    // Of one chunk a rank's forward comes from the rank whose backward waits for it: in one cell
    // both wait.
    const bool waits = schedule.ranks() > 1 && schedule.placement.chunks() == 1 &&
                       schedule.placement.copies() == 1;
    Schedule paired = pair_neighbours(schedule);
    const bool has_cells = std::ranges::any_of(paired.actions.all(), &Action::joined);
    if (waits || !has_cells || find_deadlock(paired, SendMode::buffered)) {
      throw input_error(fmt::format(
          "--overlap-experts: {} of {} has no forwards that could run beside backwards; give "
          "--schedule interleaved with a multiple of the stages, and more of them, or dualpipe, "
          "which does so by itself",
          printable(schedule.name), plural(schedule.microbatches, "microbatch")));
    }
    schedule = std::move(paired);
  }
  const auto training = replicas(schedule.ranks());
  if (training) return with_replicas(std::move(schedule), *training);
  return schedule;
}

std::optional<Training> CostSource::replicas(int pipeline_ranks) const {
  std::optional<Training> training = request_.replicas;
  if (model() != nullptr) training = model()->training_with_ranks(pipeline_ranks);
  if (training && !training->has_replicas()) training.reset();
  return training;
}

Trial trial_with(const CostSource& source, const Placement& given) {
  Trial trial;
  trial.complete = [&source](Schedule schedule) { return source.complete(std::move(schedule)); };
  trial.costs = [&source, given](const Schedule& schedule) {
    return source.resolve_as(given, schedule);
  };
  trial.transfers = source.transfers();
  trial.needed = source.bytes_needed();
  return trial;
}

}  // namespace pipesim
