// A timeline drawn in characters: one row a rank, time from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cli/terminal.h"
#include "traces/timeline.h"

namespace pipesim::cli {

// The ranks that fit a page: all, or an even choice with the first and last.
std::vector<int> shown_ranks(int ranks);

// Draws the spans that it is given: compute and closing work of those ranks.
// `chunks`: the most a rank holds; labels tell chunks apart where more than 1.
std::string draw_timeline(const Timeline& timeline, const std::vector<int>& ranks,
                          std::int64_t makespan_ns, int chunks, const Terminal& terminal);

}  // namespace pipesim::cli
