// The actions of an input pipeline, independent of when they are called.
// The runtime owns streams, transports and the order of calls; a workload owns tables, dense part
// and batches of one rank. They meet in the exchange of a collective.
#pragma once

#include <vector>

#include "exec/transport/collectives.h"
#include "traces/input_action.h"

namespace pipesim::exec {

// The exchange of a collective's ranks, for one action.
class InputExchange {
 public:
  virtual ~InputExchange() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Sends each rank its bytes, and returns those received, by rank; blocks the caller's stream. All
  // ranks make the same calls in the same order. Own bytes pass through unchanged.
  virtual std::vector<Bytes> all_to_all(std::vector<Bytes> given) = 0;
};

class InputWorkload {
 public:
  virtual ~InputWorkload() = default;
  // On the host's thread: it calls an action that is not its own, and then continues.
  virtual void call(const Action& /*action*/) {}
  // Runs one action of this rank. Called on the thread of its stream; actions of several streams
  // run concurrently: the program's waits ensure that none reads what another writes (find_fault
  // checks that). `exchange` is null unless it is a collective.
  virtual void run(const Action& action, InputExchange* exchange) = 0;
};

}  // namespace pipesim::exec
