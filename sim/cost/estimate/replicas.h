// Exchanges and optimizer steps of data-parallel replicas: after a rank's last action, or as
// collectives of its program, concurrent with compute.
//
// Rajbhandari et al., arXiv 1910.02054 (ZeRO), for volumes. Pure functions;
// any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/cost_model.h"
#include "sim/schedule/schedule.h"
#include "traces/mesh.h"

namespace pipesim {

// A virtual stage's part of the model, on one tensor-parallel rank.
struct StageShare {
  std::int64_t parameters = 0;
  std::int64_t expert_parameters = 0;   // of those, routed experts'
  std::int64_t largest_layer = 0;       // its parameters
  std::int64_t largest_neighbours = 0;  // parameters of two consecutive layers, or of the only one
  std::int64_t layers = 0;
  std::int64_t buckets = 0;  // of its layers' gradients, none spanning two layers
};

// Whether replicas exchange while ranks still compute: gradients in buckets, sharded states, or new
// weights.
bool exchanges_beside_compute(const Training& training);

// Whether they reduce gradients in every pass if a step has several: no rank keeps whole ones.
bool reduces_each_pass(const Training& training);

// Adds the necessary actions to the schedule; one that already has such actions is unchanged.
// Throws if that one computes with sharded weights that are not gathered, or reduces whole
// gradients twice.
Schedule with_replicas(Schedule schedule, const Training& training);

// The route of a pipeline rank's bytes to its replicas. `mesh` is the training's.
Exchange way_to_replicas(const Cluster& cluster, const Training& training, const Mesh& mesh,
                         int rank);

// Sets the replicas' work after a rank's last action, and the stages' collectives. `shares`: one
// per virtual stage. Call link_ranks() first.
void add_replicas(const CostModel& model, const Placement& placement,
                  const std::vector<StageShare>& shares, Costs& costs);

}  // namespace pipesim
