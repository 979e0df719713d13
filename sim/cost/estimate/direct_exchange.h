// Exchanges of data-parallel replicas in which each sends every other one its part directly, as
// pipeexec's ranks do, from the `replicas` of a costs file. A stage's gradients are cut into
// segments. Each is summed among the replicas that shard states, and every one gets its part: n - 1
// messages of 1/n. Then that part is summed among those that hold the same part, and the result is
// gathered again. A rank's link to its replicas carries all that it sends; the latency of a step
// follows its last byte. Rings, as in NCCL, are estimated from a model and a cluster instead
// (replicas.h).
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/training.h"
#include "sim/schedule/placement.h"

namespace pipesim {

// Gradients that are reduced at once are still cut into pieces of so many bytes: a rank has room
// for what others send of one.
inline constexpr std::int64_t largest_gradient_piece = std::int64_t{4} << 20;

// The size in numbers of each segment of a stage, in the order in which gradients are sent: from
// the last layer on.
std::vector<std::int64_t> reduced_segments(const std::vector<std::int64_t>& layer_parameters,
                                           const Training& training);

// Whether segments are sent one after the other: those that are split, or reduced at once. Buckets
// of gradients that all replicas have are sent as they become ready.
bool reduces_in_turn(const Training& training);

// For the bytes of a stage or a segment: what a rank sends in all steps, and the number of steps.
struct DirectExchange {
  double bytes = 0;
  int steps = 0;
};
DirectExchange direct_reduction(double gradient_bytes, const Training& training);
DirectExchange direct_gather(double weight_bytes, const Training& training);

// Refuses costs without `replicas`. `where` names their source.
void check_exchanges_known(const Costs& costs, std::string_view where);
// The same for parameters only, if exchanges are real.
void check_parameters_known(const Costs& costs, std::string_view where);

// Divides states, and the time of stepping them, among the replicas that split them.
void split_states(const Training& training, Costs& costs);

// Adds the stages' collectives, and to the optimizer's time the gathering of what it stepped.
// Clears `replicas`.
void add_exchanges(const Training& training, const Placement& placement, Costs& costs);

}  // namespace pipesim
