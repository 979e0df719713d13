#include "sim/engine/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "sim/schedule/closing.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

class Finder {
 public:
  Finder(const Schedule& schedule, const Costs& costs, int iterations,
         const Accumulation& accumulation)
      : schedule_(schedule),
        costs_(costs),
        iterations_(iterations),
        accumulation_(accumulation),
        stages_(costs.stages.size()) {}

  std::vector<Collective> run() {
    for (rank_ = 0; rank_ < schedule_.ranks(); ++rank_) {
      for (iteration_ = 0; iteration_ < iterations_; ++iteration_) go_through_iteration();
    }
    return std::move(found_);
  }

 private:
  struct Stage {
    std::int64_t gathered = Collective::none;  // by which collective, if still gathered
    std::int64_t needed = Collective::none;    // by the next action: the latest one
    std::int64_t reducing = Collective::none;  // the collective that holds its gradients
    std::int32_t gathers = 0, releases = 0, reductions = 0;
  };
  Stage& stage(int index) { return stages_[static_cast<std::size_t>(index)]; }
  const StageCosts& costs_of(int index) const {
    return costs_.stages[static_cast<std::size_t>(index)];
  }

  void go_through_iteration() {
    const auto list = schedule_.actions[rank_];
    const std::vector<int> own_stages = schedule_.placement.stages_of(rank_);
    for (const int index : own_stages) stage(index) = {};
    const std::size_t length = list.size() / static_cast<std::size_t>(iterations_);
    const std::size_t begin = length * static_cast<std::size_t>(iteration_);
    std::int64_t last_cell = Collective::none;  // that a REDUCE_GRAD here directly follows
    for (std::size_t i = begin; i < begin + length; ++i) {
      const Action& action = list[i];
      Stage& own = stage(action.stage);
      if (is_compute(action.kind)) {
        last_cell = static_cast<std::int64_t>(i);
        use(action, last_cell);
        if (action.joined) use(list[++i], last_cell);
      } else if (action.kind == Kind::UNSHARD && costs_of(action.stage).unshard.exists()) {
        last_cell = Collective::none;
        if (own.gathered != Collective::none) continue;
        add(action, own.gathers, i);
        own.gathered = own.needed = std::ssize(found_) - 1;
      } else if (action.kind == Kind::RESHARD && own.gathered != Collective::none) {
        add(action, own.releases, i).gather = own.gathered;
        own.gathered = Collective::none;
      } else if (action.kind == Kind::REDUCE_GRAD && costs_of(action.stage).reduce.exists()) {
        Collective& reduction = add(action, own.reductions, i);
        if (costs_of(action.stage).reduce.holds_gradients) own.reducing = std::ssize(found_) - 1;
        if (last_cell == Collective::none) continue;
        const auto cell = list.subspan(static_cast<std::size_t>(last_cell));
        if (makes_gradients(cell, action.stage)) {
          reduction.cell = std::exchange(last_cell, Collective::none);
        }
      }
    }
    if (!accumulation_.steps(iteration_, iterations_)) return;
    const auto from = list.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto first_that_ends = std::ranges::find_if(
        from, from + static_cast<std::ptrdiff_t>(length), ends_iteration, &Action::kind);
    const auto end = static_cast<std::size_t>(first_that_ends - list.begin());
    for (const int index : own_stages) {
      if (!costs_of(index).reduce.exists() || stage(index).reductions > 0) continue;
      add(make_action(index, Kind::REDUCE_GRAD), stage(index).reductions, end);
    }
  }

  void use(const Action& action, std::int64_t cell) {
    Stage& own = stage(action.stage);
    const std::int64_t gather = std::exchange(own.needed, Collective::none);
    if (gather != Collective::none) found_[static_cast<std::size_t>(gather)].cell = cell;
    if (action.kind != Kind::B && action.kind != Kind::W) return;
    const std::int64_t reduction = std::exchange(own.reducing, Collective::none);
    if (reduction == Collective::none) return;
    found_[static_cast<std::size_t>(reduction)].held_cell = cell;
  }

  static bool makes_gradients(std::span<const Action> cell, int stage) {
    const std::size_t size = cell_size(cell.data(), cell.data() + cell.size());
    return std::ranges::any_of(cell.first(size), [&](const Action& action) {
      return action.stage == stage && (action.kind == Kind::B || action.kind == Kind::W);
    });
  }

  Collective& add(const Action& action, std::int32_t& count, std::size_t place) {
    const bool is_numbered = count < no_number;
    if (count >= max_collectives(schedule_.microbatches / iterations_) || !is_numbered) {
      throw input_error(fmt::format("{}: rank {} has {} more than {} times{}; leave some out",
                                    schedule_.name, rank_, to_text(action), count,
                                    is_numbered ? ", three for each microbatch" : ""));
    }
    Collective& made = found_.emplace_back();
    made.action = make_collective(action.stage, action.kind, count++);
    made.rank = rank_;
    made.iteration = iteration_;
    made.place = place;
    return made;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  int iterations_;
  Accumulation accumulation_;
  std::vector<Stage> stages_;
  int rank_ = 0;
  int iteration_ = 0;
  std::vector<Collective> found_;
};

}  // namespace

bool has_collectives(const Schedule& schedule, const Costs& costs) {
  const auto reduces = [](const StageCosts& stage) { return stage.reduce.exists(); };
  if (std::ranges::any_of(costs.stages, reduces)) return true;
  const auto gathers = [](const StageCosts& stage) { return stage.unshard.exists(); };
  if (std::ranges::none_of(costs.stages, gathers)) return false;
  return std::ranges::any_of(schedule.actions.all(), [&](const Action& action) {
    return action.kind == Kind::UNSHARD &&
           gathers(costs.stages[static_cast<std::size_t>(action.stage)]);
  });
}

std::vector<Collective> find_collectives(const Schedule& program, const Costs& costs,
                                         int iterations, const Accumulation& accumulation) {
  if (!has_collectives(program, costs)) return {};
  return Finder(program, costs, iterations, accumulation).run();
}

std::int64_t count_parts(const Schedule& schedule, const Costs& costs) {
  std::int64_t parts = 0;
  for (const StageCosts& stage : costs.stages) parts += stage.reduce.parts;
  for (const Action& action : schedule.actions.all()) {
    const bool gathers = action.kind == Kind::UNSHARD;
    if (!gathers && action.kind != Kind::REDUCE_GRAD) continue;
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(action.stage)];
    parts += gathers ? stage.unshard.parts : stage.reduce.parts;
  }
  return parts;
}

}  // namespace pipesim
