// What no evaluation of a layout stays below, found without evaluating it.
//
// Times and bytes of an iteration, each argued where it is reckoned. Pure functions; a
// FullestInstants is for one thread, or guarded by its owner.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/schedule/family.h"

namespace pipesim {

// What each rank of a schedule holds when a backward begins, of all those the one at which it holds
// the activations of most chunks.
struct FullestInstant {
  std::vector<int> chunks;  // microbatches of each of its stages, in the placement's order
  int backward_stage = -1;  // which begins; -1: the rank has no backward
};
struct ScheduleProfile {
  Shape shape;
  bool splits_backward = false;  // has an I
  std::vector<FullestInstant> ranks;
};

// Profiles of schedules, each found once. Of many microbatches those of as many as the pipeline
// takes to fill up stand for all: a rank holds no less of more of them.
class ScheduleProfiles {
 public:
  // Expects a shape that the family takes.
  const ScheduleProfile& of(const Family& family, const ScheduleRequest& request);

 private:
  std::map<std::tuple<const Family*, int, int, int>, ScheduleProfile> profiles_;
};

// Of `microbatches` in a schedule with this profile.
std::int64_t least_time(const ScheduleProfile& profile, int microbatches, const Costs& costs);
// Of the fullest rank, each of which keeps so many bytes from beginning to end.
std::int64_t least_memory(const ScheduleProfile& profile, const Costs& costs,
                          const std::vector<std::int64_t>& states);

}  // namespace pipesim
