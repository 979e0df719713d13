// A schedule of data-parallel replicas: when each stage's gradients are reduced
// over them, and, where its weights are sharded over them, when those are gathered
// and released. A pass, a pure function from schedule to schedule.
//
// One replica's schedule stands for all: they do the same at the same time.
#pragma once

#include <cstdint>

#include "sim/schedule/schedule.h"

namespace pipesim {

struct ReplicaSharding {
  // Where a stage's REDUCE_GRAD stands.
  enum class Reduce : std::uint8_t {
    never,
    last_backward,   // behind its last B or W, as PyTorch's runtime has it
    after_compute,   // behind all that its rank computes
    every_backward,  // behind each of its Bs and Ws: whole gradients are never kept
  };
  // Where its UNSHARD and RESHARD stand.
  enum class Gather : std::uint8_t {
    never,
    // Around each F and each backward, as under FSDP's reshard_after_forward. An I
    // and the W of the same microbatch straight behind it are one backward.
    every_pass,
    // From before a stage's first action until behind its last, as torchtitan has it with a
    // pipeline.
    once,
    // A rank holds the next stages that it will need, as PyTorch's runtime has it:
    // before each action it releases those that are not among the next
    // `active_stages` different ones, then gathers those that are, the next first.
    window,
  };

  Reduce reduce = Reduce::last_backward;
  Gather gather = Gather::never;
  int active_stages = 3;  // of a window: the most that a rank holds, at least 1
};

// Adds the actions; a REDUCE_GRAD comes before a RESHARD at the same place. Of an
// overlapped cell that is the first to need more stages than a window has, both
// stages are held. Empty cells and transfers stay where they are. Throws for a
// schedule that has such actions already.
Schedule shard(const Schedule& schedule, const ReplicaSharding& sharding);

// The schedule with each rank's stages gathered before all else it does, in the order in which it
// first computes with them, and released behind their last use. Reductions may stand in it; throws
// for an UNSHARD or a RESHARD.
Schedule gather_ahead(const Schedule& schedule);

// The schedule without UNSHARD, RESHARD and REDUCE_GRAD.
Schedule without_replicas(const Schedule& schedule);

}  // namespace pipesim
