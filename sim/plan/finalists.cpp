#include "sim/plan/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/plan/for_all.h"
#include "sim/request/partition_request.h"
#include "sim/request/request.h"

namespace pipesim {
namespace {

constexpr std::int64_t splits_tried = 40;

CostRequest costs_of(const PlanSpace& space, const PlanPoint& point) {
  CostRequest costs;
  costs.costs = space.training(point);
  return costs;
}

// A faster split than the even one, if there is one that fits.
void split_layers(const PlanSpace& space, const PlanSearch& how, const Budget* budget,
                  Finalist& finalist) {
  const PlanPoint point = space.axes().at(finalist.outcome.index);
  // Each is held several times.
  constexpr std::int64_t max_layers = std::int64_t{1} << 14;
  constexpr std::int64_t max_places = std::int64_t{1} << 20;  // of cuts
  const std::int64_t blocks = space.question().training.model.blocks;
  const std::int64_t stages = std::int64_t{point.stages} * point.schedule.chunks;
  if (stages == 1 || blocks > max_layers || stages * blocks > max_places) return;
  const CostSource source(costs_of(space, point));
  PartitionProblem problem =
      partition_problem(source, choose_schedule(space.schedule(point)), "--model");
  if (problem.schedule.placement.copies() > 1) return;  // partition has no costs of such splits
  problem.memory_cap = how.memory_cap_bytes;
  SearchLimits limits;
  limits.trials = splits_tried;
  limits.budget = budget;
  limits.effort = Effort::small;
  const Partition found = find_partition(problem, Objective::iteration, limits,
                                         [](int layer) { return fmt::format("layer {}", layer); });
  const Split& best = found.balanced;
  if (best.metrics.makespan_ns >= finalist.even_ns) return;
  finalist.layout = best.layout;
  finalist.outcome.time_ns = best.metrics.makespan_ns;
  finalist.outcome.memory_bytes = best.peak_memory_bytes();
}

}  // namespace

Candidate candidate_of(const PlanSpace& space, const PlanPoint& point, const PlanOutcome& outcome,
                       const LayersOfStages& layout, const Budget* budget) {
  Candidate candidate;
  candidate.asked = {point.schedule.family, space.schedule(point)};
  candidate.schedule = point.schedule.family->name;
  candidate.chunks = point.schedule.chunks;
  candidate.microbatches = space.microbatches(point);
  PredictionRequest request;
  request.schedule = choose_schedule(candidate.asked.request);
  request.costs = costs_of(space, point);
  request.costs.layout = layout;
  PreparedPrediction prepared = prepare(std::move(request));
  prepared.options.budget = budget;
  candidate.prediction = prepared.predict();
  candidate.splits_backward = prepared.source.shape_of(prepared.choice.schedule).splits_backward;
  candidate.parts =
      time_parts(prepared.choice.schedule, prepared.costs, candidate.prediction.metrics);
  candidate.time_ns = outcome.time_ns;
  candidate.memory = static_cast<double>(outcome.memory_bytes);
  return candidate;
}

std::vector<Finalist> finalists(const PlanSpace& space, const std::vector<PlanOutcome>& best,
                                const PlanSearch& how, const PlanLimits& limits) {
  std::vector<Finalist> all(best.size());
  for_all(best.size(), limits.threads, [&](std::size_t i) {
    all[i].outcome = best[i];
    all[i].even_ns = best[i].time_ns;
    limits.allow([&] {
      if (how.aim == PlanAim::time) split_layers(space, how, limits.budget, all[i]);
      all[i].candidate = candidate_of(space, space.axes().at(best[i].index), all[i].outcome,
                                      all[i].layout, limits.budget);
    });
  });
  if (how.aim == PlanAim::time) {
    std::ranges::stable_sort(all, {}, [](const Finalist& one) {
      return std::pair(one.outcome.time_ns, one.outcome.memory_bytes);
    });
  }
  return all;
}

}  // namespace pipesim
