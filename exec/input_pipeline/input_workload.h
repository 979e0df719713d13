// The actions of an input pipeline, independent of when they are called.
//
// The runtime owns streams, transports and the order of calls; a workload owns tables, dense part
// and batches of one rank. The interface between them is what the ranks of a collective exchange.
#pragma once

#include <vector>

#include "exec/transport/collectives.h"
#include "traces/input_pipeline/input_action.h"

namespace pipesim::exec {

// What the ranks of a collective exchange, for one action.
class InputExchange {
 public:
  virtual ~InputExchange() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Gives each rank bytes, and returns what each gave this one, by rank; blocks the caller's
  // stream. All ranks call it as often, in the same order. Own bytes pass through unchanged.
  virtual std::vector<Bytes> all_to_all(std::vector<Bytes> given) = 0;
};

class InputWorkload {
 public:
  virtual ~InputWorkload() = default;
  // On the host's thread: it calls an action that is not its own, and then goes on.
  virtual void call(const InputAction& /*action*/) {}
  // Does one action of this rank. Called on the thread of its stream; actions of several streams
  // run at once: the program's waits see to it that none reads what another writes (find_fault
  // checks that). `exchange` is null for what is no collective.
  virtual void run(const InputAction& action, InputExchange* exchange) = 0;
};

}  // namespace pipesim::exec
