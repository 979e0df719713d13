#include "sim/engine/prediction.h"

#include <algorithm>
#include <utility>

namespace pipesim {
namespace {

// The times of a chunk and a hop where all chunks and all hops are alike and
// no rank has closing work; otherwise the reason why there are none.
std::optional<UniformTimes> uniform_times(const Costs& costs, const Placement& placement,
                                          std::string& reason) {
  for (const auto* closing : {&costs.optimizer_ns, &costs.reduce_gradients_ns}) {
    if (std::ranges::any_of(*closing, [](std::int64_t ns) { return ns > 0; })) {
      reason = "ranks have closing work";
      return std::nullopt;
    }
  }
  const StageCosts& first = costs.stages.front();
  UniformTimes times{first.forward_ns, first.backward_input_ns, first.backward_weight_ns, 0};
  std::optional<std::int64_t> hop;
  for (int s = 0; s < placement.stages(); ++s) {
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    if (stage.forward_ns != times.forward_ns || stage.backward_input_ns != times.input_ns ||
        stage.backward_weight_ns != times.weight_ns) {
      reason = "stages differ";
      return std::nullopt;
    }
    if (s + 1 == placement.stages()) continue;
    const int a = placement.rank_of(s);
    const int b = placement.rank_of(s + 1);
    if (a == b) continue;
    for (const Link& link : {costs.link(a, b), costs.link(b, a)}) {
      const std::int64_t ns = link.latency_ns + link.occupied_ns(stage.output_bytes);
      if (hop && *hop != ns) {
        reason = "hops differ";
        return std::nullopt;
      }
      hop = ns;
    }
  }
  times.hop_ns = hop.value_or(0);
  return times;
}

void add_closed_form(const Family& family, const Shape& shape, const Costs& costs,
                     Prediction& prediction) {
  std::string& reason = prediction.no_closed_form;
  if (family.closed_form == nullptr) {
    reason = "none is known";
    return;
  }
  if (!shape.placement.is_loop()) {
    reason = "stages are not on a loop of ranks";
    return;
  }
  const auto times = uniform_times(costs, shape.placement, reason);
  if (!times) return;
  auto form = family.closed_form(shape, *times);
  if (!form) {
    reason = "it needs " + std::string(family.conditions);
    return;
  }
  const std::int64_t work =
      std::int64_t{shape.microbatches} * shape.chunks * (times->forward_ns + times->backward_ns());
  if (work + form->bubble_ns == 0) {
    reason = "nothing takes time";
    return;
  }
  const Metrics& metrics = prediction.metrics;
  const RankMetrics& widest = metrics.ranks[static_cast<std::size_t>(metrics.widest_rank)];
  const std::int64_t simulated = form->metric == BubbleMetric::global
                                     ? metrics.makespan_ns - widest.busy_ns
                                     : widest.span_ns() - widest.busy_ns;
  auto& result = prediction.closed_form.emplace();
  result.fraction =
      static_cast<double>(form->bubble_ns) / static_cast<double>(work + form->bubble_ns);
  result.exact = simulated == form->bubble_ns;
  result.form = std::move(*form);
}

}  // namespace

std::int64_t Prediction::peak_memory_bytes() const {
  std::int64_t peak = 0;
  for (const RankMemory& rank : memory) peak = std::max(peak, rank.total());
  return peak;
}

Prediction predict(const Schedule& schedule, const Costs& costs, const Family* family,
                   const Shape& shape, const SimulationOptions& options) {
  Prediction prediction;
  prediction.p2p = options.p2p;
  prediction.metrics = simulate(schedule, costs, options);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    RankMemory memory;
    for (const int stage : schedule.placement.stages_of(rank)) {
      const StageCosts& stage_costs = costs.stages[static_cast<std::size_t>(stage)];
      memory.weights += stage_costs.weight_bytes;
      memory.gradients += stage_costs.gradient_bytes;
      memory.optimizer += stage_costs.optimizer_bytes;
    }
    memory.activations =
        prediction.metrics.ranks[static_cast<std::size_t>(rank)].peak_activation_bytes;
    prediction.memory.push_back(memory);
  }
  if (family != nullptr) add_closed_form(*family, shape, costs, prediction);
  return prediction;
}

}  // namespace pipesim
