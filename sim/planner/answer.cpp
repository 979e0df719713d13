#include "sim/planner/answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/request/request.h"

namespace pipesim {
namespace {

Candidate candidate_of(const PlanSpace& space, const PlanOutcome& outcome) {
  const PlanPoint point = space.axes().at(outcome.index);
  Candidate candidate;
  candidate.asked = {point.schedule.family, space.schedule(point)};
  candidate.schedule = point.schedule.family->name;
  candidate.chunks = point.schedule.chunks;
  candidate.microbatches = space.microbatches(point);
  PredictionRequest request;
  request.schedule = choose_schedule(candidate.asked.request);
  request.costs.costs = space.training(point);
  const PreparedPrediction prepared = prepare(std::move(request));
  candidate.prediction = prepared.predict();
  candidate.splits_backward = prepared.source.shape_of(prepared.choice.schedule).splits_backward;
  candidate.parts =
      time_parts(prepared.choice.schedule, prepared.costs, candidate.prediction.metrics);
  candidate.time_ns = outcome.time_ns;
  candidate.memory = static_cast<double>(outcome.memory_bytes);
  return candidate;
}

// The fastest within so many bytes, if any is.
void add_fastest(LayoutPlanner& planner, PlanSearch how, std::int64_t bytes,
                 std::vector<PlanOutcome>& out) {
  how.memory_cap_bytes = bytes;
  how.top = 1;
  const PlanResult result = planner.best(how);
  if (result.best.empty() || result.counts.not_reached > 0) return;
  const PlanOutcome& best = result.best.front();
  if (out.empty() || best.time_ns < out.back().time_ns) out.push_back(best);
}

}  // namespace

PlanAnswer answer_plan(LayoutPlanner& planner, const PlanSpace& space, const PlanSearch& how) {
  PlanAnswer answer;
  answer.result = planner.best(how);
  for (const PlanOutcome& one : answer.result.best) answer.top.push_back(candidate_of(space, one));
  constexpr int parts = 16;
  for (int part = 2; part <= parts; ++part) {
    add_fastest(planner, how, how.memory_cap_bytes / parts * part, answer.front);
  }
  // Each the most of a step that is a sixteenth more than the one before.
  std::vector<PlanOutcome> more;
  if (!answer.result.best.empty()) more.push_back(answer.result.best.front());
  const std::size_t known = more.size();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  for (int part = parts + 1; part <= 4 * parts; part += 1 + part / parts) {
    add_fastest(planner, how, how.memory_cap_bytes / parts * part, more);
  }
  add_fastest(planner, how, most, more);
  answer.with_more.assign(more.begin() + static_cast<std::ptrdiff_t>(known), more.end());
  return answer;
}

}  // namespace pipesim
