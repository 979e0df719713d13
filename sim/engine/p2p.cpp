#include "sim/engine/p2p.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct Mode {
  P2p mode;
  std::string_view name;
  Transport transport;
};

constexpr std::array<Mode, 4> modes{{{P2p::async, "async", Transport::buffered},
                                     {P2p::blocking, "blocking", Transport::rendezvous},
                                     {P2p::fifo, "fifo", Transport::fifo},
                                     {P2p::edge_fifo, "edge-fifo", Transport::edge_fifo}}};

}  // namespace

std::string_view p2p_name(P2p mode) { return std::ranges::find(modes, mode, &Mode::mode)->name; }

Transport transport_of(P2p mode) { return std::ranges::find(modes, mode, &Mode::mode)->transport; }

P2p parse_p2p(std::string_view name) {
  std::vector<std::string> known;
  for (const Mode& mode : modes) {
    if (mode.name == name) return mode.mode;
    known.emplace_back(mode.name);
  }
  throw input_error(unknown_name("p2p mode", name, known));
}

}  // namespace pipesim
