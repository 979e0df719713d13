#include "traces/flame/flame_graph.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace pipesim {
namespace {

using Node = FlameGraph::Node;

// Nodes in the order of creation: children after their parents.
class Adding {
 public:
  Adding() : nodes_(1) {}

  void add(const StackLine& line) {
    std::uint32_t node = FlameGraph::root;
    for (const std::uint32_t frame : line.path) node = within(node, frame);
    std::int64_t since_ns = line.start_ns;
    std::size_t open = 0;
    for (const StackEvent& event : line.events) {
      // Time without an open frame, as between slices, is not counted.
      if (open > 0) nodes_[node].self_ns += event.at_ns - since_ns;
      since_ns = event.at_ns;
      if (event.opens) {
        node = within(node, event.frame);
        ++open;
      } else {
        node = nodes_[node].parent;
        --open;
      }
    }
  }

  // Sorts by level, and adds up totals.
  std::vector<Node> take() {
    for (Node& node : nodes_) node.total_ns = node.self_ns;
    for (std::size_t i = nodes_.size(); i-- > 1;) {
      nodes_[nodes_[i].parent].total_ns += nodes_[i].total_ns;
      ++nodes_[nodes_[i].parent].count;
    }
    std::vector<std::uint32_t> first(nodes_.size() + 1, 0);  // by parent
    for (std::size_t i = 0; i < nodes_.size(); ++i) first[i + 1] = first[i] + nodes_[i].count;
    std::vector<std::uint32_t> children(nodes_.size() - 1);
    std::vector<std::uint32_t> filled(first.begin(), first.end() - 1);
    for (std::uint32_t i = 1; i < nodes_.size(); ++i) children[filled[nodes_[i].parent]++] = i;

    std::vector<Node> sorted{nodes_.front()};
    std::vector<std::uint32_t> old{FlameGraph::root};  // their former indices
    sorted.reserve(nodes_.size());
    old.reserve(nodes_.size());
    for (std::uint32_t at = 0; at < sorted.size(); ++at) {
      const std::span<std::uint32_t> own(children.data() + first[old[at]], sorted[at].count);
      std::ranges::stable_sort(own, std::greater(),
                               [&](std::uint32_t child) { return nodes_[child].total_ns; });
      sorted[at].first = static_cast<std::uint32_t>(sorted.size());
      for (const std::uint32_t child : own) {
        sorted.push_back(nodes_[child]);
        sorted.back().parent = at;
        old.push_back(child);
      }
    }
    return sorted;
  }

 private:
  std::uint32_t within(std::uint32_t parent, std::uint32_t frame) {
    const auto [entry, fresh] = places_.try_emplace(std::uint64_t{parent} << 32U | frame,
                                                    static_cast<std::uint32_t>(nodes_.size()));
    if (fresh) nodes_.push_back({.frame = frame, .parent = parent});
    return entry->second;
  }

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;  // by parent and frame
};

}  // namespace

FlameGraph flame_graph(const Stacks& stacks) {
  Adding adding;
  for (const StackLine& line : stacks.lines) adding.add(line);
  return {stacks.frames, adding.take()};
}

FlameGraph flame_graph(const std::function<void(StackCollector& collector)>& collect) {
  Adding adding;
  StackCollector collector([&](const StackLine& line) { adding.add(line); });
  collect(collector);
  return {collector.take().frames, adding.take()};
}

}  // namespace pipesim
