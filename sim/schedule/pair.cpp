#include "sim/schedule/pair.h"

#include <utility>
#include <vector>

namespace pipesim {

Schedule pair_neighbours(const Schedule& schedule) {
  Schedule paired = schedule;
  paired.actions = {};
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto list = schedule.actions[rank];
    std::vector<Action> own(list.begin(), list.end());
    for (std::size_t i = 0; i + 1 < own.size(); ++i) {
      const bool is_free = i == 0 || !own[i - 1].joined;
      if (!is_free || own[i].joined || own[i + 1].joined) continue;
      const bool fits = own[i].kind == Kind::B && own[i + 1].kind == Kind::F &&
                        own[i].microbatch != own[i + 1].microbatch;
      if (!fits) continue;
      std::swap(own[i], own[i + 1]);
      own[i].joined = true;
    }
    paired.actions.add_rank(own);
  }
  return paired;
}

}  // namespace pipesim
