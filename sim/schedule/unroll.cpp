#include "sim/schedule/unroll.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "sim/schedule/closing.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {

Schedule unroll(const Schedule& program, int iterations, const Accumulation& accumulation,
                const Saves& saves) {
  const std::int64_t microbatches = std::int64_t{program.microbatches} * iterations;
  if (microbatches > max_index) {
    throw input_error(
        fmt::format("{} of {} are more than {}; use fewer", plural(iterations, "iteration"),
                    plural(program.microbatches, "microbatch"), plural(max_index, "microbatch")));
  }
  ActionLists lists;
  lists.reserve(static_cast<std::size_t>(program.actions.size()) *
                static_cast<std::size_t>(iterations));
  for (int rank = 0; rank < program.ranks(); ++rank) {
    lists.add_rank();
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const bool steps = accumulation.steps(iteration, iterations);
      const bool gathers = accumulation.gathers(iteration);
      const bool is_saved = saves.saves(iteration);
      for (Action action : program.actions[rank]) {
        if (!steps && is_of_step(action.kind, accumulation)) action = Action();
        if (!gathers && action.kind == Kind::UNSHARD) action = Action();
        if (!is_saved && action.kind == Kind::SAVE) action = Action();
        if (takes_microbatch(action.kind)) action.microbatch += iteration * program.microbatches;
        lists.add(action);
      }
    }
  }
  Schedule unrolled = program.with(std::move(lists));
  unrolled.microbatches = static_cast<int>(microbatches);
  unrolled.dependencies.reserve(program.dependencies.size() * static_cast<std::size_t>(iterations));
  for (int iteration = 1; iteration < iterations; ++iteration) {
    for (auto [action, awaited] : program.dependencies) {
      action.microbatch += iteration * program.microbatches;
      awaited.microbatch += iteration * program.microbatches;
      unrolled.dependencies.push_back({action, awaited});
    }
  }
  return unrolled;
}

}  // namespace pipesim
