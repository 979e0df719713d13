#include "sim/schedule/closing.h"

#include <algorithm>
#include <cstddef>

namespace pipesim {

std::vector<Action> with_closing(std::span<const Action> list, int rank, const Placement& placement,
                                 const Closing& closing) {
  const std::vector<int>& stages = placement.stages_of(rank);
  const auto has = [&](Kind kind) {
    return std::ranges::find(list, kind, &Action::kind) != list.end();
  };
  const auto end = std::ranges::find_if(list, ends_iteration, &Action::kind);
  std::vector<Action> closed;
  closed.reserve(list.size() + stages.size() + 4);
  closed.assign(list.begin(), end);
  if (closing.reduces) {
    std::vector<int> reduced;
    for (const Action& action : list) {
      if (action.kind == Kind::REDUCE_GRAD) reduced.push_back(action.stage);
    }
    std::ranges::sort(reduced);
    // Ranks with copies sum all their gradients with the other copies' at once.
    const bool has_copies = placement.copies() > 1;
    const std::vector<int> own{placement.name_stage(rank)};
    for (const int stage : has_copies ? own : stages) {
      if (std::ranges::binary_search(reduced, stage)) continue;
      closed.push_back(make_action(stage, Kind::REDUCE_GRAD));
    }
  }
  // Following ones of the list keep their order, and RESHARDs their place after them.
  auto next = end;
  const auto add = [&](Kind kind, bool wanted, int stage) {
    if (has(kind)) {
      const auto own = std::ranges::find(list, kind, &Action::kind);
      closed.insert(closed.end(), next, own + 1);
      next = own + 1;
    } else if (wanted) {
      closed.push_back(make_action(stage, kind));
    }
  };
  const bool shares = placement.copies() == 1 &&
                      std::ranges::binary_search(group_of(Kind::REDUCE_TIED, placement), rank);
  const bool has_first = placement.rank_of(0) == rank;
  add(Kind::REDUCE_TIED, closing.reduces_tied && shares, has_first ? 0 : placement.stages() - 1);
  const int own = placement.name_stage(rank);
  add(Kind::GRAD_NORM, closing.finds_norm, own);
  add(Kind::OPTIMIZER, closing.steps, own);
  add(Kind::SAVE, closing.saves, own);
  closed.insert(closed.end(), next, list.end());
  return closed;
}

Schedule with_closing(const Schedule& schedule, const std::vector<Closing>& closing) {
  ActionLists closed;
  closed.reserve(static_cast<std::size_t>(schedule.actions.size()) +
                 static_cast<std::size_t>(schedule.stages()) +
                 4 * static_cast<std::size_t>(schedule.ranks()));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    closed.add_rank(with_closing(schedule.actions[rank], rank, schedule.placement,
                                 closing[static_cast<std::size_t>(rank)]));
  }
  return schedule.with(std::move(closed));
}

}  // namespace pipesim
