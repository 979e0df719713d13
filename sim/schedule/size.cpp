#include "sim/schedule/size.h"

#include <fmt/format.h>

#include <limits>

#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

double bytes_of(const BytesNeeded& needed, double actions, double slots, double stages,
                double ranks) {
  return actions * static_cast<double>(needed.per_action) +
         slots * static_cast<double>(needed.per_slot) +
         stages * static_cast<double>(needed.per_stage) +
         ranks * static_cast<double>(needed.per_rank);
}

std::string times_iterations(const BytesNeeded& needed) {
  return needed.iterations == 1 ? "" : " x " + plural(needed.iterations, "iteration");
}

}  // namespace

BytesNeeded BytesNeeded::times(int count) const {
  if (count == 1) return *this;
  return {(per_action + static_cast<std::int64_t>(sizeof(Action))) * count, per_slot * count,
          per_stage, per_rank, count};
}

double actions_of(const Family& family, const ScheduleRequest& request) {
  return static_cast<double>(request.chunks.value_or(family.default_chunks)) *
         request.microbatches * request.ranks * (family.splits_backward ? 3 : 2);
}

void check_size(const Family& family, const ScheduleRequest& request, const BytesNeeded& needed) {
  const int chunks = request.chunks.value_or(family.default_chunks);
  const double per_rank = static_cast<double>(chunks) * request.microbatches;
  const double slots = per_rank * request.ranks;
  const double actions = actions_of(family, request);
  const double bytes =
      actions * (sizeof(Action) + static_cast<double>(family.working_bytes)) +
      bytes_of(needed, actions, slots, static_cast<double>(chunks) * request.ranks, request.ranks);
  if (bytes <= little_memory) return;
  const std::string what =
      fmt::format("{} x {} x {}{}, {:.3g} actions", plural(request.ranks, "stage"),
                  plural(chunks, "chunk"), plural(request.microbatches, "microbatch"),
                  times_iterations(needed), actions * needed.iterations);
  check_memory(what, bytes);
  if (per_rank > std::numeric_limits<std::int32_t>::max() ||
      static_cast<double>(request.ranks) * chunks > max_index) {
    throw input_error(fmt::format("{} are more than pipesim can number; use fewer", what));
  }
}

void check_size(const Schedule& schedule, const BytesNeeded& needed) {
  const std::int64_t actions = schedule.actions.size();
  const auto all = static_cast<double>(actions);
  // Per dependency of several iterations: as tasks, with their ends.
  constexpr double bytes_a_dependency = sizeof(Dependency) + 80;
  const auto dependencies = static_cast<double>(schedule.dependencies.size()) * needed.iterations;
  check_memory(
      fmt::format("{} of {}{}", plural(actions, "action"), schedule.name, times_iterations(needed)),
      bytes_of(needed, all, all, schedule.stages(), schedule.ranks()) +
          dependencies * bytes_a_dependency);
}

}  // namespace pipesim
