// How long a message takes from one rank to another, from recorded runs: latency and bandwidth,
// overall and for edges that differ.
//
// Plain values; calls share nothing; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct TransferTimes {
  Link p2p;
  std::map<std::pair<int, int>, Link> edges;
  // Of those that count, as in costs: without the receiver's time.
  std::optional<Spread> spread;
  std::int64_t transfers = 0;       // all, awaited or not
  std::vector<std::int64_t> sizes;  // of messages, ascending
  std::vector<std::string> notes;
};

// A message's `receive_ns` is compute of its receiver, not part of the message's time. In a
// measurement, those messages count that their receiver was already waiting for when they were
// sent, until the action that needs them starts; if there are none, the fastest tenth. In a
// prediction or a profile all count, from when both ends were there to the arrival.
//
// Their medians by edge and size are fitted by latency + bytes / bandwidth; with only one size, all
// of it is latency. An edge has its own latency if its messages' times differ from the others' by
// more than the distance between the 10th and the 90th percentile.
TransferTimes transfer_times(std::span<const RecordedRun* const> runs, std::int64_t receive_ns);

}  // namespace pipesim
