#include "traces/print/tables.h"

#include <fmt/format.h>

#include "traces/base/text.h"

namespace pipesim {
std::string TableUnit::text(std::int64_t time_ns) const {
  if (time_ns == 0) return "-";
  return fmt::format("{:.{}f}", static_cast<double>(time_ns) / ns, decimals);
}

TableUnit table_unit(std::int64_t longest_ns) {
  if (longest_ns < 10'000) return {"ns", 1, 0};
  if (longest_ns < 10'000'000) return {"us", 1e3, 2};
  if (longest_ns < 1'000'000'000) return {"ms", 1e6, 3};
  if (longest_ns < 100'000'000'000) return {"ms", 1e6, 2};
  if (longest_ns < 10'000'000'000'000) return {"s", 1e9, 3};
  return {"s", 1e9, 0};
}

std::string bubble_lines(const Metrics& metrics) {
  return fmt::format(
      "bubble  global {:>7}  of all ranks' time, until the last end\n"
      "        span   {:>7}  of the longest span, first start to last end, rank {}\n",
      format_percent(metrics.global_bubble()), format_percent(metrics.span_bubble()),
      metrics.widest_rank);
}

std::string critical_path_line(const Metrics& metrics) {
  const CriticalPath& path = metrics.critical_path;
  if (path.p2p_ns == 0) return {};
  return fmt::format("critical path  {} compute, {} transfers{}\n", format_time(path.compute_ns),
                     format_time(path.p2p_ns),
                     path.other_ns > 0 ? ", " + format_time(path.other_ns) + " other" : "");
}

std::string taken_line(const RecordedRun& run) {
  const double fraction = preempted_fraction({run.spans.data(), run.spans.size()});
  if (fraction < disturbed) return {};
  return fmt::format(
      "Other processes took {} of the ranks' compute time: measure again with "
      "nothing else running, and one processor per rank.\n",
      format_percent(fraction));
}

}  // namespace pipesim
