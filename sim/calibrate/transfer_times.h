// What a message takes from one rank to another, from recorded runs: latency
// and bandwidth, overall and of edges that differ.
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
  // Of those that count, as costs have them: without what receiving takes.
  std::optional<Spread> spread;
  std::int64_t transfers = 0;       // all, awaited or not
  std::vector<std::int64_t> sizes;  // of messages, ascending
  std::vector<std::string> notes;
};

// Of a message, `receive_ns` is compute of its receiver, and no part of its
// time. Measured, those count that their receiver stood waiting for when they
// were sent, until the action that needs them starts; where there are none, the
// fastest tenth. Of a prediction or a profile all count, from when both ends
// were there to the arrival.
//
// Their medians by edge and size are fitted by latency + bytes / bandwidth; with
// one size only all of it is latency. An edge has a latency of its own where its
// messages take longer or shorter by more than the 10th and the 90th percentile
// of what they take are apart.
TransferTimes transfer_times(std::span<const RecordedRun* const> runs, std::int64_t receive_ns);

}  // namespace pipesim
