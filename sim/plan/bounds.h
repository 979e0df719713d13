// Lower bounds on a layout's time and memory, found without evaluating it.
//
// Times and bytes of an iteration, each justified where it is computed. Pure functions;
// ScheduleProfiles are for one thread, or guarded by their owner.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/training.h"
#include "sim/schedule/family.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

// A rank's memory when a backward or a weight gradient begins, per stage, in the
// placement's order.
struct HeldInstant {
  std::vector<int> chunks;    // activations of so many microbatches
  std::vector<int> residues;  // what an I has left for its W, of so many
  int backward_stage = -1;    // of which a B or an I begins; -1: a W does
};
struct ScheduleProfile {
  Shape shape;
  bool splits_backward = false;  // has an I
  bool has_cells = false;        // of a forward and a backward
  // Each rank's peaks, by several weights of a residue.
  std::vector<std::vector<HeldInstant>> ranks;
  std::vector<int> windows;  // how often a window gathers each stage
};

// Profiles of schedules, each found once. Of many microbatches those of as many as the pipeline
// takes to fill up stand for all: a rank holds no less of more of them, and one that does all
// forwards first holds all of them.
class ScheduleProfiles {
 public:
  // Expects a shape that the family takes.
  const ScheduleProfile& of(const Family& family, const ScheduleRequest& request);

  // The request with no more microbatches than of() looks at.
  static ScheduleRequest few_of(ScheduleRequest request);

 private:
  std::map<std::tuple<const Family*, int, int, int>, ScheduleProfile> profiles_;
};

// The same costs without what replicas exchange: what any choice of theirs takes at least.
Costs without_replicas(Costs costs);

// When each rank is through with its microbatches where every transfer has its links to itself and
// replicas exchange nothing.
std::vector<std::int64_t> least_ends(const Schedule& schedule, const Costs& costs);

// For `microbatches` in a schedule with this profile, whose replicas exchange as in the training
// it. `ends`: least_ends() of that schedule, or empty, for a lower bound that needs no schedule.
std::int64_t least_time(const ScheduleProfile& profile, int microbatches, const Training& training,
                        const Costs& costs, std::span<const std::int64_t> ends = {});
// For the fullest rank, if each keeps this many bytes all the time.
std::int64_t least_memory(const ScheduleProfile& profile, const Costs& costs,
                          const std::vector<std::int64_t>& states);

}  // namespace pipesim
