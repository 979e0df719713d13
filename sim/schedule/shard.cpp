#include "sim/schedule/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "traces/base/error.h"

namespace pipesim {
namespace {

using Cell = std::span<const Action>;

bool makes_gradients(const Action& action) {
  return action.kind == Kind::B || action.kind == Kind::W;
}

bool computes(Cell cell) { return is_compute(cell.front().kind); }

std::vector<Cell> cells_of(std::span<const Action> list) {
  std::vector<Cell> cells;
  while (!list.empty()) {
    cells.push_back(list.first(cell_size(list.data(), list.data() + list.size())));
    list = list.subspan(cells.back().size());
  }
  return cells;
}

// Actions to add around one cell.
struct Around {
  std::vector<Action> before;
  std::vector<Action> behind;
};

// One rank's list.
class RankSharding {
 public:
  RankSharding(std::span<const Action> list, const std::vector<int>& stages,
               const ReplicaSharding& sharding)
      : cells_(cells_of(list)), stages_(stages), sharding_(sharding), around_(cells_.size()) {}

  std::vector<Action> run() {
    add_reductions();
    if (sharding_.gather == ReplicaSharding::Gather::every_pass) gather_every_pass();
    if (sharding_.gather == ReplicaSharding::Gather::once) gather_once();
    if (sharding_.gather == ReplicaSharding::Gather::window) gather_window();
    std::vector<Action> out;
    const auto put = [&](const auto& actions) {
      out.insert(out.end(), actions.begin(), actions.end());
    };
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      put(around_[i].before);
      put(cells_[i]);
      put(around_[i].behind);
    }
    return out;
  }

 private:
  void add_reductions() {
    if (sharding_.reduce == ReplicaSharding::Reduce::never) return;
    std::map<int, std::size_t> last;  // by stage: its last cell that makes gradients
    std::size_t last_compute = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (computes(cells_[i])) last_compute = i;
      for (const Action& action : cells_[i]) {
        if (!makes_gradients(action)) continue;
        last[action.stage] = i;
        if (sharding_.reduce == ReplicaSharding::Reduce::every_backward) reduce(i, action.stage);
      }
    }
    if (sharding_.reduce == ReplicaSharding::Reduce::every_backward) return;
    for (const int stage : stages_) {
      const auto own = last.find(stage);
      if (own == last.end()) continue;
      const bool at_end = sharding_.reduce == ReplicaSharding::Reduce::after_compute;
      reduce(at_end ? last_compute : own->second, stage);
    }
  }

  void reduce(std::size_t cell, int stage) {
    around_[cell].behind.push_back(make_action(stage, Kind::REDUCE_GRAD));
  }

  void gather_every_pass() {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!computes(cells_[i])) continue;
      const bool goes_on = is_second_half(i);
      const bool stays = i + 1 < cells_.size() && is_second_half(i + 1);
      for (const Action& action : cells_[i]) {
        const bool again = &action != cells_[i].data() && action.stage == cells_[i].front().stage;
        if (again) continue;
        if (!goes_on) around_[i].before.push_back(make_action(action.stage, Kind::UNSHARD));
        if (!stays) around_[i].behind.push_back(make_action(action.stage, Kind::RESHARD));
      }
    }
  }

  // Whether a cell is the W of the I directly before it.
  bool is_second_half(std::size_t index) const {
    if (index == 0 || cells_[index].size() > 1 || cells_[index - 1].size() > 1) return false;
    const Action& weight = cells_[index].front();
    return weight.kind == Kind::W &&
           cells_[index - 1].front() == make_action(weight.stage, Kind::I, weight.microbatch);
  }

  void gather_once() {
    std::map<int, std::size_t> last;  // by stage: its last cell
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!computes(cells_[i])) continue;
      for (const Action& action : cells_[i]) {
        if (!last.contains(action.stage)) {
          around_[i].before.push_back(make_action(action.stage, Kind::UNSHARD));
        }
        last[action.stage] = i;
      }
    }
    for (const auto& [stage, cell] : last) {
      around_[cell].behind.push_back(make_action(stage, Kind::RESHARD));
    }
  }

  void gather_window() {
    // By stage, the cells that use it and the index within, in order.
    using Use = std::pair<std::size_t, std::size_t>;
    std::map<int, std::vector<Use>> uses;
    std::size_t last_compute = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!computes(cells_[i])) continue;
      last_compute = i;
      for (std::size_t k = 0; k < cells_[i].size(); ++k) {
        uses[cells_[i][k].stage].emplace_back(i, k);
      }
    }
    std::vector<int> held;  // in the order in which they were gathered
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!computes(cells_[i])) continue;
      std::vector<std::pair<Use, int>> next;
      for (const auto& [stage, own] : uses) {
        const auto at = std::ranges::lower_bound(own, Use{i, 0});
        if (at != own.end()) next.emplace_back(*at, stage);
      }
      std::ranges::sort(next);
      // A cell's stages are gathered together.
      auto count = std::min(next.size(), static_cast<std::size_t>(sharding_.active_stages));
      while (count < next.size() && next[count].first.first == next[count - 1].first.first) {
        ++count;
      }
      next.resize(count);
      hold(next, held, around_[i].before);
    }
    for (const int stage : held) {
      around_[last_compute].behind.push_back(make_action(stage, Kind::RESHARD));
    }
  }

  template <typename Next>
  static void hold(const Next& next, std::vector<int>& held, std::vector<Action>& out) {
    const auto is_next = [&](int stage) {
      return std::ranges::any_of(next, [&](const auto& one) { return one.second == stage; });
    };
    for (const int stage : held) {
      if (!is_next(stage)) out.push_back(make_action(stage, Kind::RESHARD));
    }
    std::erase_if(held, [&](int stage) { return !is_next(stage); });
    for (const auto& [use, stage] : next) {
      if (std::ranges::find(held, stage) != held.end()) continue;
      out.push_back(make_action(stage, Kind::UNSHARD));
      held.push_back(stage);
    }
  }

  std::vector<Cell> cells_;
  const std::vector<int>& stages_;
  const ReplicaSharding& sharding_;
  std::vector<Around> around_;  // by cell
};

}  // namespace

Schedule gather_ahead(const Schedule& schedule) {
  ActionLists gathered;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto list = schedule.actions[rank];
    std::map<int, std::size_t> last;  // by stage: after the last cell that uses it
    std::vector<int> by_first_use;
    std::size_t end = 0;  // of the cell
    for (const Cell cell : cells_of(list)) {
      end += cell.size();
      for (const Action& action : cell) {
        if (action.kind == Kind::UNSHARD || action.kind == Kind::RESHARD) {
          throw input_error(
              fmt::format("{}: already has {}; gather in a schedule without such actions",
                          schedule.name, to_text(action)));
        }
        if (!is_compute(action.kind)) continue;
        if (!last.contains(action.stage)) by_first_use.push_back(action.stage);
        last[action.stage] = end;
      }
    }
    gathered.add_rank();
    for (const int stage : by_first_use) gathered.add(make_action(stage, Kind::UNSHARD));
    for (std::size_t i = 0; i < list.size(); ++i) {
      gathered.add(list[i]);
      for (const int stage : by_first_use) {
        if (last[stage] == i + 1) gathered.add(make_action(stage, Kind::RESHARD));
      }
    }
  }
  return schedule.with(std::move(gathered));
}

Schedule without_replicas(const Schedule& schedule) {
  ActionLists plain;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    plain.add_rank();
    for (const Action& action : schedule.actions[rank]) {
      if (!is_of_replicas(action.kind)) plain.add(action);
    }
  }
  return schedule.with(std::move(plain));
}

Schedule shard(const Schedule& schedule, const ReplicaSharding& sharding) {
  if (sharding.active_stages < 1) {
    throw input_error(fmt::format("{}: a window of {} active stages holds none; use at least 1",
                                  schedule.name, sharding.active_stages));
  }
  for (const Action& action : schedule.actions.all()) {
    if (is_of_replicas(action.kind)) {
      throw input_error(fmt::format("{}: already has {}; shard a schedule without such actions",
                                    schedule.name, to_text(action)));
    }
  }
  ActionLists sharded;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    sharded.add_rank(
        RankSharding(schedule.actions[rank], schedule.placement.stages_of(rank), sharding).run());
  }
  return schedule.with(std::move(sharded));
}

}  // namespace pipesim
