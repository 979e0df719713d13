#include "sim/engine/prediction.h"

#include <algorithm>
#include <utility>

#include "sim/engine/collectives.h"

namespace pipesim {
namespace {

// The times of a chunk and a hop if all chunks and all hops are equal, no transfer waits for
// another and no rank has a reduction or optimizer step; otherwise the reason why there are none.
std::optional<UniformTimes> uniform_times(const Costs& costs, const Placement& placement,
                                          std::string& reason) {
  for (const auto* closing : {&costs.optimizer_ns, &costs.reduce_gradients_ns}) {
    if (std::ranges::any_of(*closing, [](std::int64_t ns) { return ns > 0; })) {
      reason = "ranks also reduce gradients or step";
      return std::nullopt;
    }
  }
  const StageCosts& first = costs.stages.front();
  UniformTimes times{first.duration_ns(Kind::F), first.duration_ns(Kind::I),
                     first.duration_ns(Kind::W), 0};
  std::optional<std::int64_t> hop;
  std::int64_t occupied = 0;
  bool own_links = true;
  for (int s = 0; s < placement.stages(); ++s) {
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    if (stage.duration_ns(Kind::F) != times.forward_ns ||
        stage.duration_ns(Kind::I) != times.input_ns ||
        stage.duration_ns(Kind::W) != times.weight_ns) {
      reason = "stages differ";
      return std::nullopt;
    }
    if (s + 1 == placement.stages()) continue;
    const int a = placement.rank_of(s);
    const int b = placement.rank_of(s + 1);
    if (a == b) continue;
    for (const Link* link : {&costs.link(a, b), &costs.link(b, a)}) {
      occupied = std::max(occupied, costs.occupied_ns(*link, stage.output_bytes));
      own_links = own_links && link->through.empty();
      const std::int64_t ns = link->latency_ns + costs.occupied_ns(*link, stage.output_bytes);
      if (hop && *hop != ns) {
        reason = "hops differ";
        return std::nullopt;
      }
      hop = ns;
    }
  }
  times.hop_ns = hop.value_or(0);
  // A rank sends after each F and each backward: a transfer no longer than the work in between has
  // left its link before the next.
  const std::int64_t gap = std::min(times.forward_ns, times.input_ns);
  if (occupied > (own_links ? gap : 0)) {
    reason = "transfers may have to share a link";
    return std::nullopt;
  }
  return times;
}

void add_closed_form(const Family& family, const Shape& shape, const Costs& costs,
                     bool has_collectives, Prediction& prediction) {
  std::string& reason = prediction.no_closed_form;
  if (family.closed_form == nullptr) {
    reason = "none is known";
    return;
  }
  if (shape.placement != family.usual_placement(shape.ranks, shape.chunks, shape.microbatches)) {
    reason = family.placement == "v" ? "ranks are not numbered along the V"
                                     : "stages are not on a loop of ranks";
    return;
  }
  if (prediction.transfers.mode != P2p::async && shape.ranks > 1) {
    reason = "transfers wait for each other";
    return;
  }
  if (costs.compute_slowdown_ppm > 0) {
    reason = "transfers slow compute down";
    return;
  }
  if (has_collectives) {
    reason = "replicas exchange weights or gradients";
    return;
  }
  if (prediction.saves.saves(0)) {
    reason = "the iteration ends with a checkpoint";
    return;
  }
  if (family.overlaps && std::ranges::any_of(costs.stages, [](const StageCosts& stage) {
        return stage.overlap_ns.has_value();
      })) {
    reason = "overlapped cells have times of their own";
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
  prediction.transfers = options.transfers;
  prediction.accumulation = options.accumulation;
  prediction.saves = options.saves;
  prediction.metrics = simulate(schedule, costs, options);
  const auto states = costs.states(schedule.placement);
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    prediction.memory.push_back(
        {states[rank], prediction.metrics.ranks[rank].peak_memory, costs.reserved_bytes});
  }
  if (family != nullptr) {
    add_closed_form(*family, shape, costs, has_collectives(schedule, costs), prediction);
  }
  return prediction;
}

}  // namespace pipesim
