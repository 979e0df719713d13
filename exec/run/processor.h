// Processors: how many there are, and how long other threads had a thread's processor, as the
// excess of wall time over its CPU time.
//
// A watch belongs to the thread that makes it. Costs two readings of the clocks at either end.
#pragma once

#include <cstdint>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// How many processors the ranks together may run on; called by all, and rank 0 gets the result.
int count_processors(Transport& transport);

class ProcessorWatch {
 public:
  // Without `counts` it reads no clock, and the result is 0. `waited_ns` grows by the thread's
  // waits for others meanwhile, and must outlive it.
  ProcessorWatch(bool counts, const std::int64_t& waited_ns);

  // Since construction. Less than the time of a thread switch counts as 0: the clocks are read one
  // after the other.
  std::int64_t preempted_ns() const;

 private:
  bool counts_;
  const std::int64_t* waited_ns_;
  std::int64_t waited_before_ns_;
  std::int64_t since_ns_ = 0;
  std::int64_t ran_ns_ = 0;
};

}  // namespace pipesim::exec
