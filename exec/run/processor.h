// Processors: how many there are, and for how long others had that of what a thread does, by how
// much longer it took than the thread ran.
//
// A watch belongs to the thread that makes it. Costs two readings of the clocks at either end.
#pragma once

#include <cstdint>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// How many the ranks together may run on; all of them take part, and rank 0 gets it.
int count_processors(Transport& transport);

class ProcessorWatch {
 public:
  // Not `counts`: reads no clock, and nothing is ever taken. `waited_ns` grows by what the thread
  // waits for others meanwhile, and outlives it.
  ProcessorWatch(bool counts, const std::int64_t& waited_ns);

  // Since it was made. What is less than a switch of threads takes is 0: clocks are read one
  // after the other.
  std::int64_t taken_ns() const;

 private:
  bool counts_;
  const std::int64_t* waited_ns_;
  std::int64_t waited_before_ns_;
  std::int64_t since_ns_ = 0;
  std::int64_t ran_ns_ = 0;
};

}  // namespace pipesim::exec
