// How long ranks exchange with their replicas, and how much of that overlaps their compute.
//
// Computed from the spans of an iteration; pure, any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "traces/timeline.h"

namespace pipesim {

struct CollectiveTimes {
  std::int64_t total_ns = 0;   // covered by any of the rank's collectives
  std::int64_t hidden_ns = 0;  // of it, while the rank computes

  std::int64_t exposed_ns() const { return total_ns - hidden_ns; }
};

// Per rank. UNSHARDs and REDUCE_GRADs count; F, I, W and B hide them.
std::vector<CollectiveTimes> collective_times(std::span<const Span> spans, int ranks);

// All UNSHARDs, or all REDUCE_GRADs, of a stage.
struct CollectiveOfStage {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  Kind kind{};

  auto operator<=>(const CollectiveOfStage&) const = default;
};
std::map<CollectiveOfStage, CollectiveTimes> collective_times_by_stage(std::span<const Span> spans);

}  // namespace pipesim
