// Where a RECV stands in its rank's list: a choice, not a rule.
//
// SENDs stay where lower() puts them, straight behind the cell that makes their result, and no
// choice changes the order of anything but RECVs:
//
//   sender        where its sender's turn comes, as lower() and PyTorch place it: no transport
//                 deadlocks on that
//   just-in-time  straight before the cell that needs it
//   early         straight behind the last SEND of its rank that its own SEND needs, directly or
//                 not; at the front where there is none. One place further up it would wait for
//                 what stands behind it. May be held back, for so many receive buffers
//   batched       just in time, and SENDs and RECVs that stand next to each other as one
//                 BATCH_P2P, as Megatron-LM calls batch_isend_irecv
//   timed         where its message is sent, by times of cells: behind the cell that its rank is
//                 at then. No transport deadlocks on that, either
//   edge          on a stream of its own directed pair of ranks, as a communicator each: no
//                 place among what its rank computes
//
// On the others a transport whose RECVs hold up what stands behind them (SendMode) may deadlock;
// find_deadlock() says so. Pure passes; any thread.
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
// By that name, or an input error that lists the known ones.
Receives parse_receives(std::string_view name);

// When the cell runs that an F, I, W or B is the first action of.
struct CellTimes {
  std::int64_t start_ns;
  std::int64_t end_ns;
};
using ReceiveTimes = std::function<CellTimes(const Action& first)>;

// What some places depend on beside the program.
struct ReceivePlacing {
  // Of `early`: how many inputs of other ranks a rank may have received, or be receiving, and not
  // used; two where a cell needs two. Absent: any number.
  std::optional<int> buffers;
  ReceiveTimes times;  // of `timed`, which needs them; whatever they say, it deadlocks nowhere
};

// Places the RECVs of a program; `sender` and `edge` leave them where lower() put them.
Schedule place_receives(const Schedule& program, Receives where,
                        const ReceivePlacing& placing = {});

// A program's compute schedule. An input error where a dependency names a SEND or RECV.
Schedule without_transfers(const Schedule& program);

// The most inputs of other ranks that a rank of the program has received, or is receiving, and
// not used, by the order of its list.
int count_receive_buffers(const Schedule& program);

// The wait-for cycle of a program whose RECVs are posted and whose SENDs complete by themselves,
// so that only what needs an input waits for it; nothing where it finishes.
std::optional<std::string> find_posted_deadlock(const Schedule& program);

}  // namespace pipesim
