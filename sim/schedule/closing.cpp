#include "sim/schedule/closing.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pipesim {

std::vector<Action> with_closing(std::span<const Action> list, const std::vector<int>& stages,
                                 const Closing& closing) {
  std::vector<Action> closed;
  closed.reserve(list.size() + stages.size() + 1);
  closed.assign(list.begin(), list.end());
  if (closing.reduces) {
    std::vector<int> reduced;
    for (const Action& action : list) {
      if (action.kind == Kind::REDUCE_GRAD) reduced.push_back(action.stage);
    }
    std::ranges::sort(reduced);
    for (const int stage : stages) {
      if (std::ranges::binary_search(reduced, stage)) continue;
      closed.push_back(make_action(stage, Kind::REDUCE_GRAD));
    }
  }
  if (closing.steps && std::ranges::find(list, Kind::OPTIMIZER, &Action::kind) == list.end()) {
    closed.push_back(make_action(stages.front(), Kind::OPTIMIZER));
  }
  return closed;
}

Schedule with_closing(const Schedule& schedule, const std::vector<Closing>& closing) {
  ActionLists closed;
  closed.reserve(schedule.actions.size() + static_cast<std::size_t>(schedule.stages()) +
                 static_cast<std::size_t>(schedule.ranks()));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    closed.add_rank(with_closing(schedule.actions[rank], schedule.placement.stages_of(rank),
                                 closing[static_cast<std::size_t>(rank)]));
  }
  return schedule.with(std::move(closed));
}

}  // namespace pipesim
