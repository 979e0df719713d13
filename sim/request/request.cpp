#include "sim/request/request.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/advice/limits.h"
#include "sim/cost/describe_layout.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/remedy.h"
#include "traces/base/error.h"

namespace pipesim {

std::optional<std::int64_t> memory_cap(std::optional<std::int64_t> asked_bytes,
                                       const std::optional<CostModel>& model) {
  if (asked_bytes == 0) {
    throw input_error("--memory-cap: a rank of 0 bytes holds nothing; give a limit such as 80GiB");
  }
  if (asked_bytes || !model) return asked_bytes;
  return model->cluster().device.memory_bytes;
}

int iterations_of_effect(const PredictionRequest& request) {
  const std::int64_t most = std::int64_t{4} * request.accumulate;
  return static_cast<int>(std::min<std::int64_t>(most, std::numeric_limits<int>::max()));
}

PreparedPrediction prepare(PredictionRequest request) {
  PreparedPrediction prepared{
      CostSource(std::move(request.costs)), std::move(request.schedule), {}, {}, {}, {}};
  ScheduleChoice& choice = prepared.choice;
  if (choice.family != nullptr) check_runs(*choice.family, choice.shape, choice.schedule);
  prepared.options.transfers = prepared.source.transfers_of(choice);
  const int iterations = std::max(request.iterations, request.accumulate);
  prepared.options.iterations = iterations;
  prepared.options.saves = request.saves;
  choice.schedule = prepared.source.complete(std::move(choice.schedule));
  prepared.model = prepared.source.cost_model(choice.schedule.ranks());
  prepared.memory_cap_bytes = memory_cap(request.memory_cap_bytes, prepared.model);
  prepared.costs = prepared.source.resolve(choice.schedule);
  prepared.options.accumulation.passes = request.accumulate;
  if (const auto replicas = prepared.source.replicas(choice.schedule.ranks())) {
    prepared.options.accumulation.reduces_each = reduces_each_pass(*replicas);
    prepared.options.accumulation.gathers_each = !replicas->gathers_next_to_forwards();
  }
  const auto check = [&](std::string_view flag, int count) {
    prepared.costs.check(choice.schedule.placement, choice.schedule.microbatches, flag, count);
  };
  check(request.iterations < request.accumulate ? "--accumulate" : "--iterations", iterations);
  if (request.saves.any()) check("--checkpoint-every", iterations_of_effect(request));
  return prepared;
}

PipelineLayout layout_of(const PreparedPrediction& prepared) {
  const ScheduleChoice& choice = prepared.choice;
  LayoutFacts facts{title_of(choice), choice.schedule, prepared.costs};
  facts.layers = prepared.source.layout_of(choice.schedule);
  const auto replicas = prepared.source.replicas(choice.schedule.ranks());
  if (prepared.model) {
    facts.model = &prepared.model->model();
    facts.parameters = prepared.model->parameters(prepared.source.shape_of(choice.schedule));
    if (facts.model->has_experts()) {
      facts.expert_parameters =
          prepared.model->expert_parameters(prepared.source.shape_of(choice.schedule));
    }
    facts.training = &prepared.model->training();
  } else if (replicas) {
    for (const StageCosts& stage : prepared.costs.stages) {
      facts.parameters.push_back(
          std::accumulate(stage.parameters.begin(), stage.parameters.end(), std::int64_t{0}));
    }
    facts.training = &*replicas;
  }
  return describe_layout(facts);
}

Prediction PreparedPrediction::predict() const {
  return pipesim::predict(choice.schedule, costs, choice.family, choice.shape, options);
}

Prediction PreparedPrediction::predict_plain() const {
  SimulationOptions plain = options;
  plain.saves = {};
  return pipesim::predict(choice.schedule, costs, choice.family, choice.shape, plain);
}

std::optional<SplitBackward> split_backward(const PreparedPrediction& prepared) {
  const Schedule& schedule = prepared.choice.schedule;
  const bool splits = std::ranges::any_of(
      schedule.actions.all(), [](const Action& action) { return action.kind == Kind::W; });
  if (!splits || !is_small(prepared.choice, prepared.costs)) return std::nullopt;
  SplitBackward found;
  SimulationOptions options;
  options.transfers = prepared.options.transfers;
  options.iterations = 3;  // the last is like all that follow
  found.steady_ns = simulate(schedule, prepared.costs, options).steady_iteration_ns();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::int64_t held = 0;
    for (const Action& action : schedule.actions[rank]) {
      if (action.kind == Kind::F) {
        found.chunks_until_weights = std::max(found.chunks_until_weights, ++held);
      }
      if (action.kind == Kind::W || action.kind == Kind::B) --held;
    }
  }
  return found;
}

std::vector<Span> PreparedPrediction::plain_spans() const {
  SimulationOptions plain = options;
  plain.saves = {};
  const RecordedRun run = record_run(choice.schedule, costs, plain);
  const auto first = run.spans_of(run.iterations.front());
  return {first.begin(), first.end()};
}

}  // namespace pipesim
