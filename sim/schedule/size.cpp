#include "sim/schedule/size.h"

#include <fmt/format.h>

#include <limits>

#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim {

void check_size(const Family& family, const ScheduleRequest& request, const BytesNeeded& needed) {
  const int chunks = request.chunks.value_or(family.default_chunks);
  const double per_rank = static_cast<double>(chunks) * request.microbatches;
  const double slots = per_rank * request.ranks;
  const double actions = slots * (family.splits_backward ? 3 : 2);
  const std::string what =
      fmt::format("{} x {} x {}, {:.3g} actions", plural(request.ranks, "stage"),
                  plural(chunks, "chunk"), plural(request.microbatches, "microbatch"), actions);
  check_memory(what, actions * (sizeof(Action) + static_cast<double>(needed.per_action)) +
                         slots * static_cast<double>(needed.per_slot));
  if (per_rank > std::numeric_limits<std::int32_t>::max() ||
      static_cast<double>(request.ranks) * chunks > max_index) {
    throw input_error(fmt::format("{} are more than pipesim can number; use fewer", what));
  }
}

void check_size(const Schedule& schedule, const BytesNeeded& needed) {
  const std::int64_t actions = schedule.actions.size();
  check_memory(
      fmt::format("{} of {}", plural(actions, "action"), schedule.name),
      static_cast<double>(actions) * static_cast<double>(needed.per_action + needed.per_slot));
}

}  // namespace pipesim
