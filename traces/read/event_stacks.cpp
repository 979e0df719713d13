#include "traces/read/event_stacks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

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
  // A file may have one thread after the other; the sort must be stable.
  if (!std::ranges::is_sorted(edges, {}, &EventEdge::time_ns)) {
    std::ranges::stable_sort(edges, {}, &EventEdge::time_ns);
  }
  std::vector<Stack> stacks;
  std::unordered_map<std::uint64_t, std::int64_t> open;  // how many, by stack and name
  const auto key = [](std::uint32_t stack, std::uint32_t name) {
    return std::uint64_t{stack} << 32U | name;
  };
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
      ++open[key(edge.stack, edge.name)];
      continue;
    }
    if (stack.empty()) {
      warnings.add("ends of slices that did not begin, left out", path);
      continue;
    }
    std::size_t depth = stack.size();
    if (open.contains(key(edge.stack, edge.name))) {
      while (stack[depth - 1].name != edge.name) --depth;
    }
    if (depth < stack.size()) {
      warnings.add("slices without an end, taken to end with the slice around them", path,
                   static_cast<std::int64_t>(stack.size() - depth));
    }
    // Values that only the end has.
    Slice& ended = stack[depth - 1];
    if (ended.arguments == 0) ended.arguments = edge.arguments;
    while (stack.size() >= depth) {
      const auto same = open.find(key(edge.stack, stack.back().name));
      if (--same->second == 0) open.erase(same);
      close(stack, edge.time_ns);
    }
  }
  for (Stack& stack : stacks) {
    if (stack.empty()) continue;
    warnings.add("slices without an end, taken to last until the end of the trace", path,
                 static_cast<std::int64_t>(stack.size()));
    while (!stack.empty()) close(stack, last_ns);
  }
}

}  // namespace pipesim
