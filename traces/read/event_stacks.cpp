#include "traces/read/event_stacks.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace pipesim {
namespace {

using Stack = std::vector<Slice>;

Slice opened(const EventEdge& edge, const Stack& stack) {
  constexpr std::size_t deepest = std::numeric_limits<std::uint16_t>::max();
  Slice slice;
  slice.start_ns = edge.time_ns;
  slice.end_ns = edge.time_ns;
  slice.name = edge.name;
  slice.track = stack.empty() ? edge.track : stack.back().track;
  slice.arguments = edge.arguments;
  slice.category = edge.category;
  slice.row = static_cast<std::uint16_t>(std::min(stack.size(), deepest));
  return slice;
}

}  // namespace

void join_edges(LargeVector<EventEdge> edges, std::int64_t last_ns, const std::string& path,
                const std::function<void(const Slice&)>& add, Warnings& warnings) {
  // A file may have one thread after the other; what is equal keeps its order.
  if (!std::ranges::is_sorted(edges, {}, &EventEdge::time_ns)) {
    std::ranges::stable_sort(edges, {}, &EventEdge::time_ns);
  }
  std::vector<Stack> stacks;
  const auto close = [&](Stack& stack, std::int64_t time_ns) {
    stack.back().end_ns = time_ns;
    add(stack.back());
    stack.pop_back();
  };
  for (const EventEdge& edge : edges) {
    if (edge.stack >= stacks.size()) stacks.resize(std::size_t{edge.stack} + 1);
    Stack& stack = stacks[edge.stack];
    if (edge.what == EventEdge::What::instant) {
      add(opened(edge, stack));
      continue;
    }
    if (edge.what == EventEdge::What::begin) {
      stack.push_back(opened(edge, stack));
      continue;
    }
    if (stack.empty()) {
      warnings.add("ends of slices that did not begin, left out", path);
      continue;
    }
    std::size_t depth = stack.size();
    while (depth > 0 && stack[depth - 1].name != edge.name) --depth;
    if (depth == 0) depth = stack.size();
    if (depth < stack.size()) {
      warnings.add("slices without an end, taken to end with what is around them", path,
                   static_cast<std::int64_t>(stack.size() - depth));
    }
    while (stack.size() > depth) close(stack, edge.time_ns);
    // What only the end says.
    if (stack.back().arguments == 0) stack.back().arguments = edge.arguments;
    close(stack, edge.time_ns);
  }
  for (Stack& stack : stacks) {
    if (stack.empty()) continue;
    warnings.add("slices without an end, taken to last until the end of the trace", path,
                 static_cast<std::int64_t>(stack.size()));
    while (!stack.empty()) close(stack, last_ns);
  }
}

}  // namespace pipesim
