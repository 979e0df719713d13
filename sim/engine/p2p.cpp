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
  SendMode sending;
};

constexpr std::array<Mode, 4> modes{{{P2p::async, "async", SendMode::buffered},
                                     {P2p::blocking, "blocking", SendMode::rendezvous},
                                     {P2p::fifo, "fifo", SendMode::fifo},
                                     {P2p::edge_fifo, "edge-fifo", SendMode::edge_fifo}}};

}  // namespace

std::string_view p2p_name(P2p mode) { return std::ranges::find(modes, mode, &Mode::mode)->name; }

std::vector<std::string> p2p_names() {
  std::vector<std::string> names;
  for (const Mode& mode : modes) names.emplace_back(mode.name);
  return names;
}

SendMode send_mode_of(P2p mode) { return std::ranges::find(modes, mode, &Mode::mode)->sending; }

P2p parse_p2p(std::string_view name) {
  for (const Mode& mode : modes) {
    if (mode.name == name) return mode.mode;
  }
  throw input_error(unknown_name("p2p mode", name, p2p_names()));
}

}  // namespace pipesim
