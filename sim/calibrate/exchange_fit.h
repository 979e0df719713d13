// How long an exchange with replicas takes, fitted to when collectives ended.
//
// A rank's link carries the bytes of its exchanges one after the other, in the order in which they
// come; each step then takes a latency. Pieces of reductions are sequential: each starts when the
// one before has ended. So a collective ends when the last byte of its pieces has left, at a
// constant time per byte, and the latencies of its steps are over. The same numbers determine which
// pieces the link was busy with.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipesim {

// A piece of one collective: bytes that could be sent from then on, in how many steps, and whether
// in sequence.
struct ExchangePiece {
  double ready_ns = 0;
  double bytes = 0;
  int steps = 1;
  std::size_t collective = 0;
  bool in_turn = false;
};

// What one rank exchanged in one iteration.
struct RankExchanges {
  std::vector<ExchangePiece> pieces;  // in the order in which they could be sent
  std::vector<double> ends_ns;        // of the collectives
};

struct ExchangeFit {
  double ns_per_byte = 0;
  double latency_ns = 0;
  // Whether latency could be separated from bytes: not if all collectives wait for about as many
  // bytes per step; then all of the time counts as bytes.
  bool is_told_apart = false;
  std::int64_t collectives = 0;
  std::vector<double> off_ns;  // by how much each ended later than the fit says
};

// A robust fit, close to most of the ends; a few that are far off count little.
ExchangeFit fit_exchanges(std::span<const RankExchanges> ranks);

}  // namespace pipesim
