// Cuts layers into stages so that the slowest rank is as fast as possible.
//
// Layers 0..n-1, in order, become the contiguous stages of a placement, each of
// at least one layer. The bottleneck of a layout is the longest time that a microbatch
// occupies any resource: a rank, with the sum of its layers and extra costs;
// or a route between two ranks, with the sum of the messages that neighbouring
// stages exchange on it. A rank's states and its largest moment must fit into its
// memory.
//
// Exact wherever a sweep over the ranks (cut_sweep.h, with its cost) ends within 2^28 steps:
// one stage per rank takes at most layers^2 x ranks / 2; for two chunks per rank, in a V or
// a loop, that is up to some 200 layers on 16 ranks; for more chunks up to some dozens of
// layers. Beyond that the layout is the best one found near good starts, and a lower
// bound limits what may be missing. The same problem gives the same layout; among those of
// equal bottleneck one with the least sum of squares of rank times, where that sweep ends
// too, and with one stage per rank the lexicographically first of these.
//
// Nanoseconds and bytes, none negative; their sums over all layers and stages, counted
// for every microbatch that is held, must stay below 2^60. Plain values; any thread.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "sim/partition/peak_states.h"
#include "sim/schedule/placement.h"
#include "traces/base/budget.h"

namespace pipesim {

struct BottleneckProblem {
  // One a layer; bytes that are not given, an empty list, are zeros.
  std::vector<std::int64_t> layer_ns;          // for one microbatch
  std::vector<std::int64_t> state_bytes;       // weights, gradients, optimizer
  std::vector<std::int64_t> activation_bytes;  // for each microbatch held
  std::vector<std::int64_t> residue_bytes;     // the same, between I and W

  Placement placement;
  // Each stage's costs in addition to its layers, per microbatch; or empty.
  std::vector<std::int64_t> stage_ns;
  // [b][l]: how long a microbatch's message between stages b and b+1 occupies its way
  // where layer l is the last of stage b: forward there, and backward the way back. It
  // is not asked for stages of one rank. Empty: nothing.
  std::vector<std::vector<std::int64_t>> transfer_ns;

  std::vector<std::vector<HeldChunks>> moments;  // [rank], see fullest_moments(); or empty
  std::vector<std::int64_t> memory_caps;         // bytes, one per rank; empty: unlimited

  int layers() const { return static_cast<int>(layer_ns.size()); }
};

struct Bottleneck {
  std::vector<int> layout;  // how many layers each stage holds
  std::int64_t ns = 0;
  std::int64_t at_least_ns = 0;  // of any layout that fits; `ns` where this one is the best

  bool is_proven() const { return ns == at_least_ns; }
};

// No layout was found that fits: what lacks least, and where.
struct Shortfall {
  std::vector<int> layout;
  int rank = 0;   // that lacks most in it
  int layer = 0;  // of that rank the one that takes most at its fullest moment
  std::int64_t bytes = 0;
  std::int64_t at_least_bytes = 0;  // that lack in any layout; 0: perhaps one fits

  bool is_proven() const { return bytes == at_least_bytes; }
};

enum class Effort : std::uint8_t {
  whole,  // some seconds at most
  small,  // a hundredth of the steps, so that fewer problems are solved exactly
};

// Throws where there are fewer layers than stages. Where the budget, if any, is over, the best so
// far.
std::variant<Bottleneck, Shortfall> find_bottleneck(const BottleneckProblem& problem,
                                                    Effort effort = Effort::whole,
                                                    const Budget* budget = nullptr);

// For a layout with at least one layer per stage, and all layers.
std::int64_t bottleneck_of(const BottleneckProblem& problem, const std::vector<int>& layout);
// A rank's peak memory, with its states.
std::int64_t memory_of(const BottleneckProblem& problem, const std::vector<int>& layout, int rank);

}  // namespace pipesim
