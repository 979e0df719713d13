// The best layouts of a plan, each with its best split of layers, as schedules to
// compare.
//
// Plain values; any thread may call, and finalists() starts others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/advice/candidates.h"
#include "sim/plan/search.h"

namespace pipesim {

// How many each virtual stage has; absent: as many as pipesim gives it by itself.
using LayersOfStages = std::optional<std::vector<int>>;

struct Finalist {
  PlanOutcome outcome;  // with its split of layers
  LayersOfStages layout;
  std::int64_t even_ns = 0;            // with the even split
  std::optional<Candidate> candidate;  // absent: the time was over
};

// A layout as a schedule to compare, with what it was evaluated to. The point need not be one of
// the space's axes.
Candidate candidate_of(const PlanSpace& space, const PlanPoint& point, const PlanOutcome& outcome,
                       const LayersOfStages& layout, const Budget* budget = nullptr);

// Of outcomes that `how` found, in the order of their aim. Where that is time, layers are split
// anew, within the memory; some tens of splits are tried of each, as long as there is time and
// there are not too many layers.
std::vector<Finalist> finalists(const PlanSpace& space, const std::vector<PlanOutcome>& best,
                                const PlanSearch& how, const PlanLimits& limits);

}  // namespace pipesim
