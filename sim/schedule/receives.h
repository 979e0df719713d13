// Where a RECV goes in its rank's list: a choice, not a rule.
//
// SENDs stay where lower() puts them, right after the cell that produces their result, and no
// choice changes the order of anything but RECVs:
//
//   sender        where its sender's turn comes, as lower() and PyTorch place it: no transport
//                 deadlocks on that
//   just-in-time  right before the cell that needs it
//   early         right after the last SEND of its rank that its own SEND needs, directly or
//                 not; at the front if there is none. One place earlier, it would wait for
//                 an action after it. Can be held back, for a given number of receive buffers
//   batched       just in time, with adjacent SENDs and RECVs as one BATCH_P2P, Megatron-LM's
//                 batch_isend_irecv
//   timed         where its message is sent, by times of cells: after the cell that its rank is
//                 in at that time. No transport deadlocks on that, either
//   edge          on a stream for its directed pair of ranks, as with a communicator for each
//                 pair: no place among its rank's compute
//
// With the others, a transport whose RECVs delay the actions after them (SendMode) may deadlock;
// find_deadlock() tells. Pure passes; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/schedule.h"

namespace pipesim {

enum class Receives : std::uint8_t { sender, just_in_time, early, batched, timed, edge };

std::vector<Receives> all_receives();
std::string_view receives_name(Receives where);
std::vector<std::string> receives_names();
// The choice of that name, or an input error that lists the known ones.
Receives parse_receives(std::string_view name);

// When a cell runs, by its first action: an F, I, W or B.
struct CellTimes {
  std::int64_t start_ns;
  std::int64_t end_ns;
};
using ReceiveTimes = std::function<CellTimes(const Action& first)>;

// What some choices depend on besides the program.
struct ReceivePlacing {
  // For `early`: how many inputs from other ranks a rank may have received, or be receiving,
  // without having used them; two if a cell needs two. Absent: any number.
  std::optional<int> buffers;
  ReceiveTimes times;  // for `timed`, which needs them; no times make it deadlock
};

// Places the RECVs of a program; `sender` and `edge` leave them where lower() put them.
Schedule place_receives(const Schedule& program, Receives where,
                        const ReceivePlacing& placing = {});

// A program's compute schedule. Throws an input error if a dependency names a SEND or RECV.
Schedule without_transfers(const Schedule& program);

// The most inputs from other ranks that any rank of the program has received, or is receiving, but
// not yet used, by the order of its list.
int count_receive_buffers(const Schedule& program);

// The wait-for cycle of a program whose RECVs are posted and whose SENDs complete by themselves,
// so that only what needs an input waits for it; nothing if it finishes. SENDs of a stage of which
// others wait for one block until they are received: that may find a cycle where there is none.
std::optional<std::string> find_posted_deadlock(const Schedule& program);

}  // namespace pipesim
