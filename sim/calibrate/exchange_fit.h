// What an exchange with replicas takes, fitted to when collectives ended.
//
// A rank's link carries the bytes of its exchanges one after the other, as they come; each step
// then takes a latency. Pieces of reductions go in turn: one starts when the one before has ended.
// So a collective ends when the last byte of its pieces has left, at so much a byte, and the
// latencies of its steps are over. Which pieces the link was busy with follows from the same
// numbers.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipesim {

// Of one collective: bytes that could go from then on, in how many steps, and whether in turn.
struct ExchangePiece {
  double ready_ns = 0;
  double bytes = 0;
  int steps = 1;
  std::size_t collective = 0;
  bool in_turn = false;
};

// What one rank exchanged in one iteration.
struct RankExchanges {
  std::vector<ExchangePiece> pieces;  // in the order in which they could go
  std::vector<double> ends_ns;        // of the collectives
};

struct ExchangeFit {
  double ns_per_byte = 0;
  double latency_ns = 0;
  // Whether latency is told from bytes: not where collectives wait for about as many bytes a
  // step; then all of it is bytes.
  bool is_told_apart = false;
  std::int64_t collectives = 0;
  std::vector<double> off_ns;  // by how much each ended later than by the fit
};

// Of those that lie nearest to most of the ends; a few that are far off count little.
ExchangeFit fit_exchanges(std::span<const RankExchanges> ranks);

}  // namespace pipesim
