// What data-parallel replicas exchange where each sends every other one its part directly, as
// pipeexec's ranks do, from what a file of costs says of one exchange.
//
// A stage's gradients are cut into segments. Each is summed up among the replicas that share
// states, where every one gets its part: n - 1 messages of 1/n. Then that part is, among those that
// hold the same, and what came out is gathered again. A rank's link to its replicas carries all
// that it sends; the latency of a step follows its last byte. Rings, as NCCL has them, are
// estimated from a model and a cluster instead (replicas.h).
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

// Gradients that are reduced at once come in pieces of so many bytes all the same: a rank has room
// for what others send of one.
inline constexpr std::int64_t largest_gradient_piece = std::int64_t{4} << 20;

// How many numbers each segment of a stage has, in the order in which gradients go: from the
// last layer on.
std::vector<std::int64_t> reduced_segments(const std::vector<std::int64_t>& layer_parameters,
                                           const Training& training);

// Whether they go one after the other: those that are split, and all at once. Buckets of gradients
// that all replicas have go as they come.
bool reduces_in_turn(const Training& training);

// Of that many bytes that a stage has, or a segment: what a rank sends in all steps, and how
// many these are.
struct DirectExchange {
  double bytes = 0;
  int steps = 0;
};
DirectExchange direct_reduction(double gradient_bytes, const Training& training);
DirectExchange direct_gather(double weight_bytes, const Training& training);

// Refuses costs that don't say what replicas exchange. `where` names their source.
void check_exchanges_known(const Costs& costs, std::string_view where);
// The same for parameters alone, where exchanges are real.
void check_parameters_known(const Costs& costs, std::string_view where);

// What states take, and stepping them, of replicas that split them.
void split_states(const Training& training, Costs& costs);

// The stages' collectives, and in the optimizer's time the gathering of what it stepped. Then
// costs say nothing of replicas any more.
void add_exchanges(const Training& training, const Placement& placement, Costs& costs);

}  // namespace pipesim
