// In which order a sweep takes the ranks, and what it does at each.
//
// A cut is open between a rank that was taken and one that was not. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/partition/cut_costs.h"

namespace pipesim {

inline constexpr int no_stage = -1;

// A cut that is placed when its rank is taken.
struct CutChoice {
  int cut = 0;
  int left = 0;  // the nearest cuts that are known by then
  int right = 0;
  std::vector<int> complete;  // stages of the rank whose cuts are known with it
  // The stage that grows as the cut moves right or left, where it is the only one.
  int grows_right = no_stage;
  int grows_left = no_stage;
};

// What is done when a rank is taken.
struct SweepStep {
  int rank = 0;
  std::vector<int> known;                 // the open cuts before it
  std::vector<std::pair<int, int>> gaps;  // cuts around all stages that are not taken before it
  std::vector<int> complete;              // stages of the rank whose cuts are known by then
  std::vector<CutChoice> choices;
  std::vector<const Direction*> ways;  // to ranks that are not taken yet
  std::vector<int> places;  // cuts that a state tells: the open ones, then those closed at once
  std::size_t open = 0;
  int ranks_left = 0;
  std::int64_t beside_ns_left = 0;
};

// A step for each rank, next always the one that leaves the fewest cuts open; of several
// the one with the last stage. Points into `costs`.
std::vector<SweepStep> plan_sweep(const CutCosts& costs);

}  // namespace pipesim
