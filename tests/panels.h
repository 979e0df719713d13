// Timelines made by hand, for tests of pictures.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "traces/print/timeline_panel.h"

namespace pipesim::testing {

inline Span span_of(int rank, const Action& action, std::int64_t start_ms, std::int64_t end_ms) {
  Span span;
  span.rank = rank;
  span.action = action;
  span.start_ns = start_ms * 1'000'000;
  span.end_ns = end_ms * 1'000'000;
  return span;
}

// Each rank has two chunks, in a loop.
inline TimelinePanel panel_of(std::string title, std::vector<Span> spans, int ranks) {
  TimelinePanel panel;
  panel.title = std::move(title);
  panel.actions_of_rank.resize(static_cast<std::size_t>(ranks));
  for (int stage = 0; stage < 2 * ranks; ++stage) panel.chunk_of_stage.push_back(stage / ranks);
  for (const Span& span : spans) {
    ++panel.actions_of_rank[static_cast<std::size_t>(span.rank)];
    panel.makespan_ns = std::max(panel.makespan_ns, span.end_ns);
  }
  panel.replay = [spans = std::move(spans)](const SpanSink& sink) {
    for (const Span& span : spans) sink(span);
  };
  return panel;
}

// Of one rank, whose F and B take 2 and 1 ms, and the same twice as long.
inline TimelineGroup two_panels() {
  TimelineGroup group{"8 microbatches", {}, ""};
  for (const auto& [title, length] : {std::pair("swift", 1), std::pair("<slow>", 2)}) {
    group.panels.push_back(
        panel_of(title,
                 {span_of(0, make_action(0, Kind::F, 0), 0, 2 * length),
                  span_of(0, make_action(1, Kind::B, 0), 2 * length, 3 * length)},
                 1));
  }
  return group;
}

}  // namespace pipesim::testing
