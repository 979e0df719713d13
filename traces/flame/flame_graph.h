// Aggregated stacks: a tree of frames with each one's own and total time.
//
// Plain values; const use is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "traces/flame/stacks.h"

namespace pipesim {

struct FlameGraph {
  struct Node {
    std::uint32_t frame = 0;   // index into `frames`
    std::uint32_t parent = 0;  // of the root itself
    // Its children: consecutive nodes, the longest first, ties in input order.
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::int64_t self_ns = 0;
    std::int64_t total_ns = 0;  // its own and its children's
  };

  std::vector<StackFrame> frames;
  std::vector<Node> nodes;  // the root, then level by level; the root is of no frame

  static constexpr std::uint32_t root = 0;
  const StackFrame& frame(std::uint32_t node) const { return frames[nodes[node].frame]; }
  std::span<const Node> children(std::uint32_t node) const {
    return {nodes.data() + nodes[node].first, nodes[node].count};
  }
};

FlameGraph flame_graph(const Stacks& stacks);
// Of what `collect` adds, without keeping it: of millions of spans it would be hundreds of
// megabytes.
FlameGraph flame_graph(const std::function<void(StackCollector& collector)>& collect);

}  // namespace pipesim
