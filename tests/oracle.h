// An independent interpreter for tests: slow, obvious, and sharing nothing
// with the evaluation but the vocabulary. It sweeps over all ranks again and
// again until nothing moves, keeps every time in maps, and derives each metric
// from its definition in traces/METRICS.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"

namespace pipesim::oracle {

struct Interval {
  std::int64_t start;
  std::int64_t end;
};

struct Rank {
  std::int64_t busy = 0;
  std::int64_t first_start = 0;
  std::int64_t last_end = 0;
  std::int64_t warmup = 0, steady = 0, drain = 0, p2p = 0;
  std::int64_t peak_chunks = 0;
  std::int64_t peak_bytes = 0;
};

struct Result {
  std::int64_t makespan = 0;
  std::vector<Rank> ranks;
  std::map<std::tuple<int, Kind, int>, Interval> times;  // (stage, kind, microbatch)
  std::int64_t path_compute = 0, path_p2p = 0, path_other = 0;

  double global_bubble() const;
  double span_bubble() const;
};

// Nothing where the schedule deadlocks.
std::optional<Result> run(const Schedule& schedule, const Costs& costs);

}  // namespace pipesim::oracle
