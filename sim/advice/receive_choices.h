// Placements of receives side by side: the time of an iteration with each on each transport,
// or why it deadlocks there.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/p2p.h"
#include "sim/schedule/receives.h"

namespace pipesim {

// For a program on a transport.
struct ReceiveOutcome {
  std::optional<std::int64_t> makespan_ns;  // absent: it deadlocks
  std::string cycle;                        // in which it does
};

struct ReceiveChoice {
  std::optional<Receives> where;  // absent: as the schedule itself has its transfers
  int buffers = 0;                // see count_receive_buffers()
  // By mode; a choice is left out of those that its streams say nothing of.
  std::map<P2p, ReceiveOutcome> outcomes;

  std::string_view name() const { return where ? receives_name(*where) : "as written"; }
  // Null where the choice is left out of the mode.
  const ReceiveOutcome* on(P2p mode) const;
};

struct ReceiveQuestion {
  std::vector<P2p> modes;
  std::optional<Receives> only;  // this choice and the first; absent: all
  std::int64_t eager_limit_bytes = 0;
  std::optional<int> buffers;  // of Receives::early
  // What costs add to a program, such as exchanges of replicas; absent: nothing.
  std::function<Schedule(Schedule)> complete;
  // Told what is tried next, where it is given.
  std::function<void(const std::string&)> progress;
};

// Every choice, or the one asked for. The first is what the others are held against: a program
// as it is written, or a compute schedule as lower() makes it one. Expects what simulate() does.
std::vector<ReceiveChoice> try_receives(const Schedule& schedule, const Costs& costs,
                                        const ReceiveQuestion& question);

// The program that is tried, before it is completed. Times are those of an iteration whose
// transfers hold nothing (P2p::async).
Schedule with_receives(const Schedule& schedule, Receives where, const Costs& costs,
                       const ReceiveQuestion& question);

// The fastest on a transport, of several as fast the one that comes first; null where none runs.
const ReceiveChoice* fastest_on(P2p mode, const std::vector<ReceiveChoice>& choices);

}  // namespace pipesim
