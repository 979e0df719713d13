// Orders on a V made of slots of equal length: a repeated building block of one microbatch,
// with moves to earlier slots where the pipeline fills and drains.
//
// A microbatch passes the ranks four times: forwards down and up, then input gradients the
// same way back. Weight gradients fill free slots. Plain values; any thread.
#pragma once

#include <array>
#include <vector>

namespace pipesim::families {

// What a rank does with a microbatch.
enum class Pass : signed char {
  forward_down,
  forward_up,
  input_up,
  input_down,
  weight,       // of either chunk
  weight_up,    // of the chunk on the way up
  weight_down,  // of the chunk on the way down
};
inline constexpr int travelling_passes = 4;  // the first: each needs the one before

struct SlotItem {
  int slot = 0;
  int microbatch = 0;  // of a weight gradient: how many there were before
  Pass pass = Pass::weight;
};
using Timeline = std::vector<SlotItem>;   // of a rank, one item per slot
using Timelines = std::vector<Timeline>;  // of the ranks from the top of the V to its point

// The slots of a rank for the first microbatch, by pass.
using Block = std::array<int, travelling_passes>;

// Every microbatch this many slots after the one before.
Timelines repeated(const std::vector<Block>& blocks, int microbatches, int interval);

// Puts each weight gradient into the first free slot after its input gradient, one chunk's
// like the other's, or those of the chunk on the way up first.
enum class Weights { alike, by_chunk };
void add_weights(Timelines& ranks, Weights weights);
void drop_weights(Timelines& ranks);

// Moves items to the first free slots after their inputs, such that no rank holds more than the
// fullest one does: the items after the last forward_down of the first rank and, if the timelines
// have weight gradients, those before its first input_down, too. Without weight gradients in the
// timelines, these count as done in free slots.
void move_earlier(Timelines& ranks);

// Puts everything into the first slot it can have in the order there is.
void squeeze(Timelines& ranks);

}  // namespace pipesim::families
