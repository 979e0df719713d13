// Published figures of schedules alone, which need no cost model: bubble rates
// and ratios of the zero-bubble paper, speed-ups of GPipe.
//
// Pure functions; any thread. They throw what read_rows() does.
#pragma once

#include <string>
#include <vector>

namespace pipesim::validation {

struct Figure {
  std::string name;
  std::vector<double> computed;   // a column each
  std::vector<double> published;  // of the same columns
};

// Table 5 from table 9's times: the rates of 1F1B, ZB-H1, ZB-H2 and 1F1B-I.
std::vector<Figure> bubble_rates(const std::string& folder);

// Table 4 by table 9's times: how many times as long 1F1B takes as ZB-1p and as
// 1F1B-I, both first with hops that hold no device, then with their senders held.
std::vector<Figure> schedule_ratios(const std::string& folder);

// Throughput with K partitions and M microbatches against K = 2 and M = 1 of the
// same table, or M = 32 where it has no other, with partitions that are all alike.
std::vector<Figure> gpipe_speedups(const std::string& folder);

}  // namespace pipesim::validation
