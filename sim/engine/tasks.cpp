#include "sim/engine/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

Sending sending_of(const Transfers& transfers, const Costs& costs) {
  return {transfers.mode == P2p::async, lane_of(send_mode_of(transfers.mode)),
          [&](const Action& send) { return is_eager(send, costs, transfers); }};
}

class TasksBuilder {
 public:
  TasksBuilder(const Schedule& schedule, const Costs& costs, const SimulationOptions& options)
      : schedule_(schedule),
        placement_(schedule.placement),
        costs_(costs),
        iterations_(options.iterations),
        accumulation_(options.accumulation),
        saves_(options.saves),
        sending_(sending_of(options.transfers, costs)),
        table_(schedule, sending_, tasks_) {}

  Tasks build() {
    for (const SharedLink& link : costs_.shared_links) {
      shared_links_.push_back(tasks_.plan.network.add_link(link.bytes_per_second));
    }
    table_.make_rows();
    for (TaskRow& row : tasks_.rows) price(row);
    tasks_.first_step = tasks_.first_closing() + count_closing();
    make_collectives();
    prepare_groups();
    make_saves();
    table_.make_plan(tasks_.first_step - tasks_.first_closing() + tasks_.steps.size() +
                     tasks_.saves.count());
    place_collectives();
    for (int rank = 0; rank < schedule_.ranks(); ++rank) fill_streams(rank);
    table_.add_dependencies();
    return std::move(tasks_);
  }

 private:
  // ---- Rows

  void price(TaskRow& row) {
    const int copy =
        static_cast<int>(&row - tasks_.rows.data()) / tasks_.stages % placement_.copies();
    switch (row.work) {
      case TaskKind::forward:
      case TaskKind::backward:
      case TaskKind::weight: {
        const StageCosts& costs = costs_.of(row.stage, copy, placement_);
        if (row.work == TaskKind::forward) row.duration_ns = {costs.duration_ns(Kind::F), 0};
        if (row.work == TaskKind::weight) row.duration_ns = {costs.duration_ns(Kind::W), 0};
        if (row.work != TaskKind::backward) return;
        row.duration_ns = {costs.duration_ns(Kind::I), costs.duration_ns(Kind::B)};
        return;
      }
      case TaskKind::transfer_forward:
      case TaskKind::transfer_backward: {
        const Link& link = costs_.link(row.rank, row.to_rank);
        row.latency_ns = link.latency_ns;
        // The returned gradient has the size of the activation.
        const int output = std::min(row.stage, row.consumer);
        row.bytes = costs_.stages[static_cast<std::size_t>(output)].output_bytes;
        row.route = route(row.rank, row.to_rank, link);
        return;
      }
      default: return;
    }
  }

  // The edge's own link, if its bandwidth is limited, and its shared ones.
  RouteId route(int from_rank, int to_rank, const Link& link) {
    const auto known = routes_.find({from_rank, to_rank});
    if (known != routes_.end()) return known->second;
    return routes_[{from_rank, to_rank}] = make_route(link);
  }

  RouteId make_route(const Link& link) {
    FlowNetwork& network = tasks_.plan.network;
    std::vector<LinkId> links;
    if (link.bytes_per_second) links.push_back(network.add_link(*link.bytes_per_second));
    for (const int shared : link.through) {
      links.push_back(shared_links_[static_cast<std::size_t>(shared)]);
    }
    return links.empty() ? no_route : network.add_route(links);
  }

  // ---- Collectives

  // Creates and numbers their steps, and a stream for them on each rank.
  void make_collectives() {
    found_ = find_collectives(schedule_, costs_, iterations_, accumulation_);
    if (found_.empty()) return;
    tasks_.first_collective_stream = static_cast<StreamId>(table_.streams().exchanges(0));
    std::vector<RouteId> routes;
    routes.reserve(static_cast<std::size_t>(schedule_.ranks()));
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      table_.streams().exchanges(rank);  // one after the other
      routes.push_back(make_route(costs_.collective_link(rank)));
    }
    for (const Collective& one : found_) {
      const auto index = static_cast<std::uint32_t>(tasks_.collectives.size());
      CollectiveTasks& own = tasks_.collectives.emplace_back();
      own.action = one.action;
      own.rank = one.rank;
      own.iteration = one.iteration;
      own.route = routes[static_cast<std::size_t>(one.rank)];
      own.gather = one.gather;
      own.is_within_cell = one.action.kind == Kind::REDUCE_GRAD && one.cell != Collective::none;
      if (!own.is_within_cell) add_steps(StepKind::call, index, 1);
      if (one.action.kind == Kind::RESHARD) continue;
      const StageCosts& stage = costs_.stages[static_cast<std::size_t>(one.action.stage)];
      const CollectiveCosts& costs =
          one.action.kind == Kind::UNSHARD ? stage.unshard : stage.reduce;
      own.costs = &costs;
      own.parts = static_cast<std::int32_t>(costs.parts);
      if (own.is_within_cell) own.first_lead = add_steps(StepKind::lead, index, own.parts - 1);
      own.first_part = add_steps(StepKind::part, index, own.parts);
    }
  }

  // The number of the first of them.
  TaskId add_steps(StepKind kind, std::uint32_t collective, std::int32_t count) {
    const std::size_t first = tasks_.first_step + tasks_.steps.size();
    table_.check_count(first + static_cast<std::size_t>(count));
    for (std::int32_t i = 0; i < count; ++i) tasks_.steps.push_back({kind, collective, i});
    return static_cast<TaskId>(first);
  }

  // Puts parts on their streams, and notes the cells that depend on them.
  void place_collectives() {
    if (found_.empty()) return;
    tasks_.collectives_of_cell.resize(tasks_.first_closing());
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const Collective& one = found_[i];
      CollectiveTasks& own = tasks_.collectives[i];
      for (std::int32_t part = 0; part < own.parts; ++part) {
        const TaskId task = own.first_part + static_cast<TaskId>(part);
        const bool is_beside = own.costs->side_by_side;
        if (!is_beside) tasks_.plan.append(tasks_.collective_stream(own.rank), task);
        if (part == 0 || is_beside || own.is_within_cell) tasks_.plan.need_signal(task);
        if (own.is_within_cell && part + 1 < own.parts) {
          tasks_.plan.need_signal(own.first_lead + static_cast<TaskId>(part));
        }
      }
      if (one.held_cell != Collective::none) {
        own.held = first_task_at(one.rank, one.held_cell);
        collectives_of(own.held).before = static_cast<std::int64_t>(i);
        tasks_.plan.need_signal(own.held);
      }
      if (one.cell == Collective::none || own.parts == 0) continue;
      const TaskId cell = first_task_at(one.rank, one.cell);
      CellCollectives& collectives = collectives_of(cell);
      if (own.is_within_cell) {
        collectives.reduction = static_cast<std::int64_t>(i);
      } else {
        collectives.gathers[collectives.gathers[0] == Collective::none ? 0 : 1] =
            static_cast<std::int64_t>(i);
        own.waiting = cell;
        tasks_.plan.need_signal(own.waiting);
      }
    }
  }

  TaskId first_task_at(int rank, std::int64_t cell) const {
    return tasks_.task_of(schedule_.actions[rank][static_cast<std::size_t>(cell)]);
  }

  CellCollectives& collectives_of(TaskId cell) {
    std::uint32_t& at = tasks_.collectives_of_cell[cell];
    if (at == 0) {
      tasks_.cell_collectives.emplace_back();
      at = static_cast<std::uint32_t>(tasks_.cell_collectives.size());
    }
    return tasks_.cell_collectives[at - 1];
  }

  // Appends the collectives that the rank calls at that place of its list.
  void append_calls(int rank, std::size_t place) {
    for (; next_found_ < found_.size(); ++next_found_) {
      const Collective& one = found_[next_found_];
      if (one.rank != rank || one.place != place) return;
      const CollectiveTasks& own = tasks_.collectives[next_found_];
      if (own.is_within_cell) continue;
      // It comes before the parts; a RESHARD has none.
      while (tasks_.steps[next_step_].collective != next_found_) ++next_step_;
      tasks_.plan.append(static_cast<StreamId>(rank),
                         static_cast<TaskId>(tasks_.first_step + next_step_));
    }
  }

  void make_saves() {
    std::vector<int> iterations;
    for (int i = 0; saves_.any() && i < iterations_; ++i) {
      if (saves_.saves(i)) iterations.push_back(i);
    }
    if (iterations.empty()) return;
    tasks_.saves =
        SaveTasks(*costs_.save, saves_, schedule_.ranks(), std::move(iterations),
                  static_cast<TaskId>(tasks_.first_step + tasks_.steps.size()), tasks_.plan);
  }

  // ---- Streams

  // An upper bound: a blocking collective is two, and a SAVE may have to wait for others.
  std::size_t count_closing() const {
    const auto actions = static_cast<std::size_t>(
        std::ranges::count_if(schedule_.actions.all(), [](const Action& action) {
          return action.kind >= Kind::REDUCE_GRAD && action.kind <= Kind::SAVE;
        }));
    const auto without_step = static_cast<std::size_t>(accumulation_.passes > 1 ? iterations_ : 0);
    return 2 * actions + without_step * static_cast<std::size_t>(schedule_.ranks());
  }

  void fill_streams(int rank) {
    const auto list = schedule_.actions[rank];
    const std::size_t length = list.size() / static_cast<std::size_t>(iterations_);
    const std::int64_t reductions =
        std::ranges::count(list.last(length), Kind::REDUCE_GRAD, &Action::kind);
    std::int64_t reduced = 0;
    const auto place_other = [&](std::size_t i) {
      const Action& action = list[i];
      if (action.kind == Kind::REDUCE_GRAD && !costs_.reduce_gradients_ns.empty()) {
        // They share their rank's reduction time.
        const std::int64_t total = costs_.reduce_gradients_ns[static_cast<std::size_t>(rank)];
        add_closing(rank, action, share_of(total, reductions, reduced++ % reductions));
      } else if (action.kind == Kind::OPTIMIZER) {
        append_calls(rank, i);
        const auto& times = costs_.optimizer_ns;
        add_end(rank, action, times.empty() ? 0 : times[static_cast<std::size_t>(rank)]);
      } else if (action.kind == Kind::SAVE) {
        append_calls(rank, i);
        end_without_step(rank);
        tasks_.saves.append(rank, tasks_.plan);
      } else if (is_blocking_collective(action.kind)) {
        append_calls(rank, i);
        add_blocking_collective(rank, action);
      } else if (is_of_replicas(action.kind)) {
        append_calls(rank, i);
      }
    };
    for (iteration_ = 0; iteration_ < iterations_; ++iteration_) {
      const std::size_t begin = length * static_cast<std::size_t>(iteration_);
      table_.fill_streams(rank, begin, begin + length, place_other);
      const bool steps = accumulation_.steps(iteration_, iterations_);
      if (!steps && iteration_ + 1 < iterations_) end_without_step(rank);
    }
    append_calls(rank, list.size());
  }

  // ---- The end of an iteration

  void add_closing(int rank, const Action& action, std::int64_t duration_ns) {
    tasks_.plan.append(static_cast<StreamId>(rank),
                       static_cast<TaskId>(tasks_.first_closing() + tasks_.closing.size()));
    tasks_.closing.push_back({action, rank, iteration_, duration_ns});
  }

  // It waits for the last of its rank's collectives, which end in order.
  void add_end(int rank, const Action& action, std::int64_t duration_ns) {
    add_closing(rank, action, duration_ns);
    CollectiveTasks* last = last_collective(rank);
    if (last == nullptr || last->end != no_task) return;
    last->end = last_closing();
    tasks_.plan.need_signal(last->end);
  }

  // Waits for collectives that nothing else has waited for.
  void end_without_step(int rank) {
    const CollectiveTasks* last = last_collective(rank);
    if (last != nullptr && last->end == no_task) add_end(rank, Action(), 0);
  }

  // Prepares the traffic of each kind, if its group has other ranks.
  void prepare_groups() {
    for (const Kind kind : {Kind::REDUCE_TIED, Kind::GRAD_NORM}) {
      const auto& costs = costs_.group_costs(kind);
      if (!costs || group_of(kind, placement_).size() == 1) continue;
      GroupTasks& group = group_of_kind_[kind == Kind::REDUCE_TIED ? 0 : 1];
      group.latency_ns = costs->latency_ns;
      group.bytes = costs->bytes;
      group.route = make_route(costs->link());
    }
  }

  void add_blocking_collective(int rank, const Action& action) {
    add_end(rank, action, 0);
    const std::size_t kind = action.kind == Kind::REDUCE_TIED ? 0 : 1;
    const std::size_t at = 2 * static_cast<std::size_t>(iteration_) + kind;
    if (at >= tasks_.groups.size()) tasks_.groups.resize(at + 1);
    GroupTasks& group = tasks_.groups[at];
    if (group.parts.empty()) group = group_of_kind_[kind];
    tasks_.closing.back().group = static_cast<std::int32_t>(at);
    tasks_.closing.back().comes = true;
    add_closing(rank, action, 0);
    tasks_.closing.back().group = static_cast<std::int32_t>(at);
    tasks_.plan.need_signal(last_closing());
    group.parts.push_back(last_closing());
    group.missing = group.parts.size();
  }

  TaskId last_closing() const {
    return static_cast<TaskId>(tasks_.first_closing() + tasks_.closing.size() - 1);
  }

  // Null if the rank has none that takes time; those of its stream end in order.
  CollectiveTasks* last_collective(int rank) {
    for (auto at = tasks_.collectives.begin() + static_cast<std::ptrdiff_t>(next_found_);
         at != tasks_.collectives.begin() && (at - 1)->rank == rank; --at) {
      if ((at - 1)->parts > 0) return &*(at - 1);
    }
    return nullptr;
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const Costs& costs_;
  int iterations_;
  Accumulation accumulation_;
  Saves saves_;
  Sending sending_;
  Tasks tasks_;
  TaskTableBuilder table_;
  int iteration_ = 0;  // whose actions go onto their streams
  std::map<std::pair<int, int>, RouteId> routes_;
  std::vector<LinkId> shared_links_;
  std::array<GroupTasks, 2> group_of_kind_;  // without parts
  std::vector<Collective> found_;
  std::size_t next_found_ = 0;  // the next that a rank calls
  std::size_t next_step_ = 0;
};

}  // namespace

bool is_eager(const Action& send, const Costs& costs, const Transfers& transfers) {
  const int first = send.kind == Kind::SEND_F ? send.stage : send.stage - 1;
  return costs.stages[static_cast<std::size_t>(first)].output_bytes < transfers.eager_limit_bytes;
}

Tasks make_tasks(const Schedule& program, const Costs& costs, const SimulationOptions& options) {
  return TasksBuilder(program, costs, options).build();
}

}  // namespace pipesim
