// How results travel between ranks: a choice, not a constant.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/schedule/deadlock.h"

namespace pipesim {

enum class P2p {
  async,      // from the moment they are sent, holding no stream; a RECV delays nothing
  blocking,   // SEND and RECV hold their ranks' compute from meeting to arrival
  fifo,       // the same on one communication stream a rank, as one NCCL communicator has
  edge_fifo,  // the same on a stream for each directed pair of ranks, at each end
};

struct Transfers {
  P2p mode = P2p::async;
  // A SEND of fewer bytes completes by itself, whoever is there to receive it;
  // under async every one does.
  std::int64_t eager_limit_bytes = 0;
};

std::string_view p2p_name(P2p mode);
// By that name, or an input error that lists the known ones.
P2p parse_p2p(std::string_view name);

// What the deadlock check calls it.
SendMode send_mode_of(P2p mode);

}  // namespace pipesim
