// A schedule of data-parallel replicas: when each stage's gradients are reduced over them and, if
// its weights are sharded over them, when those are gathered and released. A pass, a pure function
// from schedule to schedule.
//
// One replica's schedule represents all of them: they do the same at the same time.
#pragma once

#include <cstdint>

#include "sim/schedule/schedule.h"

namespace pipesim {

struct ReplicaSharding {
  // Where a stage's REDUCE_GRAD goes.
  enum class Reduce : std::uint8_t {
    never,
    last_backward,   // after its last B or W, as in PyTorch's runtime
    after_compute,   // after all compute of its rank
    every_backward,  // after each of its Bs and Ws: full gradients are never kept
  };
  // Where its UNSHARD and RESHARD go.
  enum class Gather : std::uint8_t {
    never,
    // Around each F and each backward, as under FSDP's reshard_after_forward. An I and the W of the
    // same microbatch right after it are one backward.
    every_pass,
    // From before a stage's first action until after its last, as torchtitan does with a pipeline.
    once,
    // A rank holds the next stages that it will need, as in PyTorch's runtime: before each action
    // it releases those that are not among the next
    // `active_stages` different ones, then gathers those that are, the next first.
    window,
  };

  Reduce reduce = Reduce::last_backward;
  Gather gather = Gather::never;
  int active_stages = 3;  // for a window: the most that a rank holds, at least 1
};

// Adds the actions; a REDUCE_GRAD comes before a RESHARD at the same place. If an overlapped cell
// is the first to need more stages than a window has, both its stages are held. Empty cells and
// transfers stay where they are. Throws for a schedule that has such actions already.
Schedule shard(const Schedule& schedule, const ReplicaSharding& sharding);

// The schedule with each rank's stages gathered before everything else, in the order in which the
// rank first computes with them, and released after their last use. The schedule may have
// reductions; throws for an UNSHARD or a RESHARD.
Schedule gather_ahead(const Schedule& schedule);

// The schedule without UNSHARD, RESHARD and REDUCE_GRAD.
Schedule without_replicas(const Schedule& schedule);

}  // namespace pipesim
