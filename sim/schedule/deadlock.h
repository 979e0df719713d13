// Deadlock check: whether a schedule finishes, for any times, and if not, what waits for what.
//
// Each way of sending turns a rank's list into streams that run in order; a
// schedule deadlocks when their heads wait for each other in a cycle. Times
// do not matter: a schedule deadlocks always or never.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/schedule.h"
#include "sim/schedule/streams.h"

namespace pipesim {

// How SEND and RECV hold up what comes after them.
enum class SendMode {
  buffered,    // a SEND completes by itself; a RECV blocks its rank until then
  rendezvous,  // SEND and RECV hold both ranks until they meet
  fifo,        // rendezvous on one in-order communication stream per rank
  edge_fifo,   // rendezvous on one stream for each directed pair of ranks
};

TransferLane lane_of(SendMode mode);
std::string_view send_mode_name(SendMode mode);
std::vector<SendMode> all_send_modes();
std::vector<std::string> send_mode_names();
SendMode parse_send_mode(std::string_view name);

// For the SENDs of a stage, named without a microbatch: whether they complete by themselves in any
// mode, as those below the eager limit do. Absent: none does.
using EagerSends = std::function<bool(const Action& send)>;

// The wait-for cycle in action names, or nothing if the schedule finishes. A compute schedule is
// checked by its data dependencies alone, which is what `buffered` means for it; the other modes
// need a program. Expects a schedule that find_fault() passes.
std::optional<std::string> find_deadlock(const Schedule& schedule, SendMode mode,
                                         const EagerSends& eager = {});

// Throws an input error with the cycle in which a schedule that makes no progress is stuck.
[[noreturn]] void throw_deadlock(const Schedule& schedule, SendMode mode = SendMode::buffered,
                                 const EagerSends& eager = {});

}  // namespace pipesim
