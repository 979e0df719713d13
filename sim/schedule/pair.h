// A pass: a backward and the forward directly behind it share a cell, so that either's exchanges
// run behind the other's compute, as Megatron-Core's --overlap-moe-expert-parallel-comm has it.
// A forward behind the warm-up so becomes part of it, and one more microbatch is in flight.
#pragma once

#include "sim/schedule/schedule.h"

namespace pipesim {

// Nothing changes where no backward has a forward of another microbatch behind it.
Schedule pair_neighbours(const Schedule& schedule);

}  // namespace pipesim
