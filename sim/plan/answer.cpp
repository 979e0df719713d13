#include "sim/plan/answer.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipesim {
namespace {

// The fastest within so many bytes, if any is.
void add_fastest(LayoutPlanner& planner, PlanSearch how, std::int64_t bytes,
                 std::vector<PlanOutcome>& out) {
  how.memory_cap_bytes = bytes;
  how.aim = PlanAim::time;
  how.top = 1;
  const PlanResult result = planner.best(how);
  if (result.best.empty() || result.counts.not_reached > 0) return;
  const PlanOutcome& best = result.best.front();
  if (out.empty() || best.time_ns < out.back().time_ns) out.push_back(best);
}

}  // namespace

PlanAnswer answer_plan(LayoutPlanner& planner, const PlanSpace& space, PlanResult found,
                       const PlanSearch& how, const PlanLimits& limits) {
  PlanAnswer answer;
  answer.result = std::move(found);
  answer.top = finalists(space, answer.result.best, how, limits);
  constexpr int parts = 16;
  for (int part = 2; part <= parts; ++part) {
    add_fastest(planner, how, how.memory_cap_bytes / parts * part, answer.front);
  }
  if (limits.are_over()) return answer;  // whether the last of them is the best is not known
  // Each the most of a step that is a sixteenth more than the one before.
  std::vector<PlanOutcome> more;
  if (!answer.front.empty()) more.push_back(answer.front.back());
  const std::size_t known = more.size();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  for (int part = parts + 1; part <= 4 * parts; part += 1 + part / parts) {
    add_fastest(planner, how, how.memory_cap_bytes / parts * part, more);
  }
  add_fastest(planner, how, most, more);
  answer.with_more.assign(more.begin() + static_cast<std::ptrdiff_t>(known), more.end());
  answer.is_whole = answer.result.counts.not_reached == 0 && !limits.are_over();
  return answer;
}

}  // namespace pipesim
