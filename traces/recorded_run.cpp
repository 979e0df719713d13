#include "traces/recorded_run.h"
#include <algorithm>
#include <numeric>
namespace pipesim {
std::size_t RecordedRun::median_iteration() const {
  std::vector<std::size_t> order(iterations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return iterations[i].makespan_ns; });
  return order[(order.size() - 1) / 2];
}
}
