// The modes in which results travel between ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/deadlock.h"

namespace pipesim {

enum class P2p {
  async,      // from the moment they are sent, holding no stream; a RECV delays nothing
  blocking,   // SEND and RECV hold their ranks' compute from meeting to arrival
  fifo,       // the same on one communication stream per rank, as with one NCCL communicator
  edge_fifo,  // the same on a stream for each directed pair of ranks, at each end
};

struct Transfers {
  P2p mode = P2p::async;
  // A SEND of fewer bytes completes without its receiver;
  // under async every one does.
  std::int64_t eager_limit_bytes = 0;
};

std::string_view p2p_name(P2p mode);
std::vector<std::string> p2p_names();
// The mode of this name, or an input error that lists the known ones.
P2p parse_p2p(std::string_view name);

// Its name in the deadlock check.
SendMode send_mode_of(P2p mode);

}  // namespace pipesim
