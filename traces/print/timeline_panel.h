// Timelines to be drawn: what terminal pictures and figures are made of.
//
// A panel owns no spans: it replays them, each time the same, and the source of the replay must
// outlive it. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "traces/input_run.h"
#include "traces/timeline.h"

namespace pipesim {

struct TimelinePanel {
  std::string title;                // one line, or empty
  std::vector<int> chunk_of_stage;  // of all virtual stages
  std::vector<std::size_t> actions_of_rank;
  std::int64_t makespan_ns = 0;
  std::function<void(const SpanSink&)> replay;
  // Where rows are not ranks: their names. A span's rank is then its row.
  std::vector<std::string> row_names = {};

  int chunks() const;  // the most on any rank
};

// Of an input pipeline: a row for each stream of these ranks that anything runs on. The host's
// calls of others are IDLE.
TimelinePanel panel_of(const InputRun& run, const std::vector<int>& ranks);
TimelinePanel panel_of(const InputRun& run);  // of the first four

// Panels on one axis, under a heading of one line; below them a note. Either may be empty.
struct TimelineGroup {
  std::string heading;
  std::vector<TimelinePanel> panels;
  std::string note;
};

// The ranks that fit on a page: all, or an even selection with the first and last.
std::vector<int> shown_ranks(int ranks);

}  // namespace pipesim
