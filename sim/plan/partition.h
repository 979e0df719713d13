// Which layers each stage holds, so that an iteration takes least.
//
// The layout of least bottleneck (bottleneck.h), the even and the given one are where
// a search starts that simulates every layout tried: all of them where they are few
// enough, else what lies near these as long as it is better, then what lies near
// others that differ from the best, until that has been of no use for a while.
// A layout within the memory beats one that is not; then the shorter iteration
// counts, then the smaller peak. Where the bottleneck is the objective it counts
// before these, and a search is needed only where the least does not fit. The result
// depends on the arguments alone, where no time ran out. Any thread; progress is told
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
#include "sim/plan/bottleneck.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

struct PartitionProblem {
  Schedule schedule;                      // whatever the layout
  std::vector<StageCosts> layers;         // one a layer
  std::vector<int> even;                  // the layout that others are compared with
  std::optional<std::vector<int>> given;  // a layout to start from, too
  // The costs of a layout, checked.
  std::function<Costs(const std::vector<int>&)> costs;
  Transfers transfers;
  std::optional<std::int64_t> memory_cap;  // of each rank
};

struct SearchLimits {
  std::int64_t trials = 2000;     // layouts that are simulated at most, beside the starts
  Effort effort = Effort::whole;  // for the least bottleneck
  // Asked before each; where it says so the search ends with the best so far.
  std::function<bool()> out_of_time;
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
  // Of any layout that fits.
  std::int64_t bottleneck_at_least_ns = 0;
  std::int64_t tried = 0;  // layouts that were simulated
  SearchEnd end = SearchEnd::not_searched;
};

// Throws an input error where no layout fits into the memory, or none that was tried:
// which rank lacks how much in one that lacks least, and its largest layer, called
// `layer_name(layer)`.
Partition find_partition(const PartitionProblem& problem, Objective objective,
                         const SearchLimits& limits,
                         const std::function<std::string(int)>& layer_name);

// What the layouts are of, for bottleneck.h; its caps are empty. Of the two ways between
// two ranks the slower counts for both.
BottleneckProblem bottleneck_problem(const PartitionProblem& problem, const Costs& costs_of_even);

}  // namespace pipesim
