// The classes of values in which two runs differ, and each one's share in the difference
// of their makespans.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/compare/operations.h"
#include "sim/compare/replay.h"

namespace pipesim {

enum class Term : std::uint8_t {
  order,       // the order in which ranks did the actions that both have
  compute,     // their durations
  transfer,    // of transfers, from when both ends were there to the arrival
  wait,        // from a result's end to that
  exchange,    // waits for what ranks exchange with their replicas
  launch,      // from when a rank and its input were ready to the start
  unmodelled,  // actions found in one trace only
  clock,       // clock offsets between ranks
};
inline constexpr int term_count = 8;
inline constexpr std::array<std::string_view, term_count> term_names{
    "order", "compute", "transfer", "wait", "exchange", "launch", "unmodelled", "clock"};

// Whether an operation's value of a term, its duration or the gap before it, differs.
constexpr auto value_of(Term term) {
  if (term == Term::exchange) return &Values::exchange;
  return term == Term::wait || term == Term::launch ? &Values::gap : &Values::duration;
}

// The measured minus the predicted makespan, by term; sums exactly.
struct Gap {
  std::array<std::int64_t, term_count> terms{};
  // Of `launch`: iterations that follow each other are compared as each would repeat itself;
  // this is what either run has beside, by side, as a summand of the difference.
  std::array<std::int64_t, 2> beside_repetition_ns{};

  std::int64_t& operator[](Term term) { return terms[static_cast<std::size_t>(term)]; }
  std::int64_t operator[](Term term) const { return terms[static_cast<std::size_t>(term)]; }
  std::int64_t total_ns() const;
};

// Either side's order of what both have, between which replays choose: repeated where the
// measured iteration follows one whose ends are known.
struct CommonOrders {
  CommonOrders(const Operations& operations, P2p mode);

  std::array<Order, 2> orders;
};

// All terms but `clock`. What only one run has is left out first and put in last; of the
// other terms each is its share (attribution.h) of what all of them do.
Gap gap_between(const Operations& operations, const CommonOrders& common,
                const std::array<Order, 2>& all, const std::array<Values, 2>& values);

}  // namespace pipesim
