// Splits layers over stages for the shortest iteration.
//
// A search starts from the layout with the smallest bottleneck (bottleneck.h), the even and the
// given one, and simulates every layout it tries: all of them if there are few
// enough, else neighbours of these as long as they are better, then neighbours of
// others that differ from the best, until that has not helped for a while.
// A layout that fits in memory beats one that does not; then the shorter iteration
// counts, then the smaller peak. If the bottleneck is the objective it counts
// first, and a search is needed only if the smallest does not fit. The result
// depends only on the arguments, unless time ran out. Any thread; progress is reported
// on the calling one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/prediction.h"
#include "sim/partition/bottleneck.h"
#include "sim/schedule/schedule.h"
#include "traces/base/budget.h"

namespace pipesim {

struct PartitionProblem {
  Schedule schedule;                      // for every layout
  std::vector<StageCosts> layers;         // one a layer
  std::vector<int> even;                  // the layout that others are compared with
  std::optional<std::vector<int>> given;  // a layout to start from, too
  // The costs of a layout, checked.
  std::function<Costs(const std::vector<int>&)> costs;
  Transfers transfers;
  std::optional<std::int64_t> memory_cap;  // of each rank
};

struct SearchLimits {
  std::int64_t trials = 2000;     // layouts to simulate at most, besides the starts
  Effort effort = Effort::whole;  // for the least bottleneck
  // Once it is over the search ends with the best so far; null: without end.
  const Budget* budget = nullptr;
  // Told of each: how many were tried, the least iteration so far.
  std::function<void(std::int64_t tried, std::int64_t makespan_ns)> progress;
};

struct Split {
  std::vector<int> layout;
  Costs costs;
  Metrics metrics;
  std::vector<RankMemory> memory;  // one per rank
  std::int64_t bottleneck_ns = 0;

  std::int64_t peak_memory_bytes() const;
};

enum class Objective : std::uint8_t {
  iteration,   // the simulated time
  bottleneck,  // the least bottleneck, then the simulated time
};

enum class SearchEnd : std::uint8_t {
  all_tried,     // no layout is better
  settled,       // nothing better was found for a while
  trials,        // as many were simulated as may be
  time,          // ran out
  not_searched,  // there was no need to
};
std::string_view search_end_name(SearchEnd end);

struct Partition {
  Split even;
  std::optional<Split> given;
  Split balanced;
  // For any layout that fits.
  std::int64_t bottleneck_at_least_ns = 0;
  std::int64_t tried = 0;  // layouts that were simulated
  SearchEnd end = SearchEnd::not_searched;
};

// Throws an input error where no layout fits into the memory, or none that was tried:
// which rank lacks how much in one that lacks least, and its largest layer, called
// `layer_name(layer)`. Throws a work error where the time is over before any is known to fit.
Partition find_partition(const PartitionProblem& problem, Objective objective,
                         const SearchLimits& limits,
                         const std::function<std::string(int)>& layer_name);

// What the layouts are of, for bottleneck.h; its caps are empty. Of the two ways between
// two ranks the slower counts for both.
BottleneckProblem bottleneck_problem(const PartitionProblem& problem, const Costs& costs_of_even);

}  // namespace pipesim
