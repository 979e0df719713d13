// What data-parallel replicas exchange and step: as closing work after a rank's
// last action, or as collectives of its program, beside what it computes.
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

// What a virtual stage holds of the model, one tensor-parallel rank's part.
struct StageShare {
  std::int64_t parameters = 0;
  std::int64_t largest_layer = 0;       // parameters of it
  std::int64_t largest_neighbours = 0;  // of two layers that follow each other, or of the only one
  std::int64_t layers = 0;
  std::int64_t buckets = 0;  // its layers' gradients are reduced in so many, none of two layers
};

// Whether replicas exchange while ranks still compute: gradients in buckets, states that are kept
// in parts, or new weights.
bool exchanges_beside_compute(const Training& training);

// Whether they reduce gradients in every pass where several are one step: no rank keeps whole
// ones.
bool reduces_each_pass(const Training& training);

// The schedule with the actions that this takes; one that has such actions
// already stays as it is. Throws where that computes with weights that are split and
// not gathered, or reduces gradients twice that are whole.
Schedule with_replicas(Schedule schedule, const Training& training);

// The way that a pipeline rank's bytes take to its replicas. `mesh` of the training.
Exchange way_to_replicas(const Cluster& cluster, const Training& training, const Mesh& mesh,
                         int rank);

// Fills what replicas do behind a rank's last action, and the stages' collectives.
// `shares`: one a virtual stage. Expects link_ranks() to have been called.
void add_replicas(const CostModel& model, const Placement& placement,
                  const std::vector<StageShare>& shares, Costs& costs);

}  // namespace pipesim
