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

class TasksBuilder {
 public:
  TasksBuilder(const Schedule& schedule, const Costs& costs, const SimulationOptions& options)
      : schedule_(schedule),
        placement_(schedule.placement),
        costs_(costs),
        transfers_(options.transfers),
        iterations_(options.iterations),
        accumulation_(options.accumulation),
        saves_(options.saves),
        sends_are_listed_(schedule.has_transfers()),
        streams_(schedule.ranks(), lane_of(send_mode_of(transfers_.mode))) {}

  Tasks build() {
    tasks_.placement = &placement_;
    tasks_.stages = schedule_.stages();
    while (1 << tasks_.shift < schedule_.microbatches) ++tasks_.shift;
    tasks_.rows.resize(static_cast<std::size_t>(tasks_.stages * placement_.copies()) *
                       task_kind_count);
    tasks_.is_whole.resize(tasks_.slots());
    make_rows();
    tasks_.first_step = tasks_.first_closing() + count_closing();
    make_collectives();
    prepare_groups();
    make_saves();
    const std::size_t count = tasks_.first_step + tasks_.steps.size() + tasks_.saves.count();
    if (count >= most_tasks) fail_to_number();
    tasks_.plan.resize(static_cast<std::size_t>(streams_.count()), count);
    reserve_streams();
    need_signals();
    place_collectives();
    for (int rank = 0; rank < schedule_.ranks(); ++rank) fill_streams(rank);
    add_dependencies();
    return std::move(tasks_);
  }

 private:
  static constexpr std::size_t most_tasks = std::size_t{1} << 31;
  [[noreturn]] void fail_to_number() const {
    throw input_error(fmt::format("{} x {} are more than the event engine can number; use fewer",
                                  plural(schedule_.stages(), "virtual stage"),
                                  plural(schedule_.microbatches, "microbatch")));
  }

  // The row of the copy that rows are made for.
  TaskRow& row(TaskKind work, int stage) { return tasks_.rows[tasks_.row_of(work, stage, copy_)]; }

  // ---- Rows

  void make_rows() {
    for (const SharedLink& link : costs_.shared_links) {
      shared_links_.push_back(tasks_.plan.network.add_link(link.bytes_per_second));
    }
    for (copy_ = 0; copy_ < placement_.copies(); ++copy_) make_rows_of_copy();
  }

  void make_rows_of_copy() {
    for (int stage = 0; stage < tasks_.stages; ++stage) {
      const StageCosts& costs = costs_.of(stage, copy_, placement_);
      add_compute(TaskKind::forward, stage, costs, Kind::F, Kind::F);
      add_compute(TaskKind::backward, stage, costs, Kind::I, Kind::B);
      add_compute(TaskKind::weight, stage, costs, Kind::W, Kind::W);
    }
    for (int stage = 0; stage < tasks_.stages; ++stage) {
      for (const Kind kind : {Kind::F, Kind::B}) {
        const int to = output_stage(make_action(stage, kind));
        if (to >= 0 && to < tasks_.stages) connect(stage, to);
      }
    }
  }

  TaskRow& add_row(TaskKind work, int stage) {
    TaskRow& own = row(work, stage);
    own.work = work;
    own.stage = stage;
    own.rank = placement_.rank_of(stage, copy_);
    return own;
  }

  void add_compute(TaskKind work, int stage, const StageCosts& costs, Kind kind, Kind whole) {
    TaskRow& own = add_row(work, stage);
    own.streams[0] = static_cast<StreamId>(own.rank);
    own.duration_ns = {costs.duration_ns(kind), costs.duration_ns(whole)};
  }

  // The end of `from` signals `to`.
  void signals(TaskKind from, int from_stage, TaskKind to, int to_stage) {
    row(from, from_stage).successor = static_cast<std::int32_t>(tasks_.row_of(to, to_stage, copy_));
    row(to, to_stage).needs_signal = true;
  }

  // The route of a stage's result to its neighbour.
  void connect(int from, int to) {
    const bool forward = to > from;
    // The returned gradient has the size of the activation.
    const std::int64_t bytes =
        costs_.stages[static_cast<std::size_t>(std::min(from, to))].output_bytes;
    const TaskKind producer = forward ? TaskKind::forward : TaskKind::backward;
    const TaskKind consumer = producer;
    const int from_rank = placement_.rank_of(from, copy_);
    const int to_rank = placement_.rank_of(to, copy_);
    if (from_rank == to_rank) {
      signals(producer, from, consumer, to);
      return;
    }
    row(consumer, to).has_input = true;
    row(producer, from).consumer = to;
    const TaskKind transfer = forward ? TaskKind::transfer_forward : TaskKind::transfer_backward;
    const Link& link = costs_.link(from_rank, to_rank);
    TaskRow& own = add_row(transfer, from);
    own.consumer = to;
    own.to_rank = to_rank;
    own.latency_ns = link.latency_ns;
    own.bytes = bytes;
    own.route = route(from_rank, to_rank, link);

    // Whether the compute stream itself orders a SEND after its producer and a consumer after its
    // RECV.
    const bool async = transfers_.mode == P2p::async;
    const bool by_list = transfers_.mode == P2p::blocking || (async && sends_are_listed_);
    const Action sent = make_action(from, forward ? Kind::SEND_F : Kind::SEND_B);
    const bool eager = !async && is_eager(sent, costs_, transfers_);
    const auto stream_of = [&](int owner) {
      return static_cast<StreamId>(streams_.transfers(owner, from_rank, to_rank));
    };
    const StreamId sender = stream_of(from_rank);
    const StreamId receiver = stream_of(to_rank);
    TaskKind first = transfer;  // released by the producer's end
    TaskKind last = transfer;   // releases the consumer
    if (eager || (async && sends_are_listed_)) {
      first = forward ? TaskKind::send_forward : TaskKind::send_backward;
      TaskRow& send = add_row(first, from);
      send.consumer = to;
      send.streams[0] = sender;
      signals(first, from, transfer, from);
    } else if (!async) {
      own.streams = {sender, receiver};
    }
    if (eager) {
      last = forward ? TaskKind::receive_forward : TaskKind::receive_backward;
      TaskRow& receive = add_row(last, to);
      receive.consumer = to;
      receive.streams[0] = receiver;
      signals(transfer, from, last, to);
    }
    if (!by_list) signals(producer, from, first, from);
    if (!by_list || async) signals(last, last == transfer ? from : to, consumer, to);
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
    tasks_.first_collective_stream = static_cast<StreamId>(streams_.exchanges(0));
    std::vector<RouteId> routes;
    routes.reserve(static_cast<std::size_t>(schedule_.ranks()));
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      streams_.exchanges(rank);  // one after the other
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
    if (first + static_cast<std::size_t>(count) >= most_tasks) fail_to_number();
    for (std::int32_t i = 0; i < count; ++i) tasks_.steps.push_back({kind, collective, i});
    return static_cast<TaskId>(first);
  }

  // Puts parts on their streams, and notes the cells that depend on them.
  void place_collectives() {
    if (found_.empty()) return;
    tasks_.ties_of_cell.resize(tasks_.first_closing());
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
        ties_of(own.held).before = static_cast<std::int64_t>(i);
        tasks_.plan.need_signal(own.held);
      }
      if (one.cell == Collective::none || own.parts == 0) continue;
      const TaskId cell = first_task_at(one.rank, one.cell);
      Ties& ties = ties_of(cell);
      if (own.is_within_cell) {
        ties.reduction = static_cast<std::int64_t>(i);
      } else {
        ties.gathers[ties.gathers[0] == Collective::none ? 0 : 1] = static_cast<std::int64_t>(i);
        own.waiting = cell;
        tasks_.plan.need_signal(own.waiting);
      }
    }
  }

  TaskId first_task_at(int rank, std::int64_t cell) const {
    return tasks_.task_of(schedule_.actions[rank][static_cast<std::size_t>(cell)]);
  }

  Ties& ties_of(TaskId cell) {
    std::uint32_t& at = tasks_.ties_of_cell[cell];
    if (at == 0) {
      tasks_.ties.emplace_back();
      at = static_cast<std::uint32_t>(tasks_.ties.size());
    }
    return tasks_.ties[at - 1];
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

  // A row is on its streams with all its microbatches, or with none.
  void reserve_streams() {
    std::vector<std::size_t> rows(tasks_.plan.streams.size());
    for (const TaskRow& one : tasks_.rows) {
      for (const StreamId stream : one.streams) {
        if (stream != no_stream) ++rows[stream];
      }
    }
    for (std::size_t stream = 0; stream < rows.size(); ++stream) {
      tasks_.plan.reserve(static_cast<StreamId>(stream),
                          rows[stream] * static_cast<std::size_t>(schedule_.microbatches));
    }
  }

  void need_signals() {
    for (std::size_t at = 0; at < tasks_.rows.size(); ++at) {
      if (!tasks_.rows[at].needs_signal) continue;
      for (int mb = 0; mb < schedule_.microbatches; ++mb) {
        tasks_.plan.need_signal(tasks_.task(at, mb));
      }
    }
  }

  void fill_streams(int rank) {
    const auto list = schedule_.actions[rank];
    const std::size_t length = list.size() / static_cast<std::size_t>(iterations_);
    const std::int64_t reductions =
        std::ranges::count(list.last(length), Kind::REDUCE_GRAD, &Action::kind);
    std::int64_t reduced = 0;
    iteration_ = 0;
    std::size_t end = length;  // of the iteration
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action& action = list[i];
      if (i == end) {
        if (!accumulation_.steps(iteration_, iterations_)) end_without_step(rank);
        ++iteration_;
        end += length;
      }
      if (is_compute(action.kind)) {
        tasks_.plan.append(static_cast<StreamId>(rank), tasks_.task_of(action));
        note(action);
        if (!action.joined) continue;
        note(list[++i]);
        join(action, list[i]);
      } else if (is_transfer(action.kind)) {
        append_transfer(action);
      } else if (action.kind == Kind::REDUCE_GRAD && !costs_.reduce_gradients_ns.empty()) {
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
    }
    append_calls(rank, list.size());
  }

  void note(const Action& action) {
    if (action.kind == Kind::B) tasks_.is_whole[tasks_.slot(action.stage, action.microbatch)] = 1;
  }

  // Both actions of a cell are one task, the forward's; it needs what either
  // needs.
  void join(const Action& first, const Action& second) {
    if (tasks_.joined.empty()) {
      tasks_.joined_at_forward.resize(tasks_.slots());
      tasks_.joined_at_backward.resize(tasks_.slots());
    }
    tasks_.joined.push_back({tasks_.task_of(first), tasks_.task_of(second)});
    const auto at = static_cast<std::uint32_t>(tasks_.joined.size());
    tasks_.joined_at_forward[tasks_.slot(first.stage, first.microbatch)] = at;
    tasks_.joined_at_backward[tasks_.slot(second.stage, second.microbatch)] = at;
    if (tasks_.row(tasks_.task_of(second)).needs_signal) {
      tasks_.plan.need_signal(tasks_.task_of(first));
    }
  }

  // An end of a transfer: the transfer itself if its ends meet, else a separate SEND or RECV; under
  // async a RECV delays nothing.
  void append_transfer(const Action& action) {
    const Action send = is_send(action.kind) ? action : peer_of(action);
    const bool forward = send.kind == Kind::SEND_F;
    const bool batched =
        action.joined && (transfers_.mode == P2p::blocking || transfers_.mode == P2p::fifo);
    const int copy = placement_.copy_of(action.microbatch);
    const std::size_t meeting = tasks_.row_of(
        forward ? TaskKind::transfer_forward : TaskKind::transfer_backward, send.stage, copy);
    const auto& streams = tasks_.rows[meeting].streams;
    if (streams[0] != no_stream) {
      tasks_.plan.append(streams[is_send(action.kind) ? 0 : 1],
                         tasks_.task(meeting, action.microbatch), batched);
      return;
    }
    TaskKind work = forward ? TaskKind::send_forward : TaskKind::send_backward;
    if (is_receive(action.kind))
      work = forward ? TaskKind::receive_forward : TaskKind::receive_backward;
    const std::size_t end = tasks_.row_of(work, action.stage, copy);
    const StreamId stream = tasks_.rows[end].streams[0];
    if (stream == no_stream) return;
    tasks_.plan.append(stream, tasks_.task(end, action.microbatch), batched);
  }

  // ---- Dependencies

  void add_dependencies() {
    for (const Dependency& dependency : schedule_.dependencies) {
      const TaskId task = task_for(dependency.action);
      tasks_.dependencies.push_back({task_for(dependency.awaited), task});
      tasks_.plan.need_signal(task);
    }
    std::ranges::sort(tasks_.dependencies);
  }

  // The engine's task for an action; for ends of a transfer that are not separate tasks, the
  // transfer.
  TaskId task_for(const Action& action) const {
    if (is_compute(action.kind)) {
      const TaskId task = tasks_.task_of(action);
      const std::uint32_t joined = tasks_.joined_with(task);
      return joined == 0 ? task : tasks_.joined[joined - 1].forward;
    }
    const bool forward = action.kind == Kind::SEND_F || action.kind == Kind::RECV_F;
    const TaskKind send = forward ? TaskKind::send_forward : TaskKind::send_backward;
    const TaskKind receive = forward ? TaskKind::receive_forward : TaskKind::receive_backward;
    const TaskKind transfer = forward ? TaskKind::transfer_forward : TaskKind::transfer_backward;
    const int copy = placement_.copy_of(action.microbatch);
    const std::size_t own =
        tasks_.row_of(is_send(action.kind) ? send : receive, action.stage, copy);
    if (tasks_.rows[own].streams[0] != no_stream) return tasks_.task(own, action.microbatch);
    const int sender = is_send(action.kind) ? action.stage : peer_of(action).stage;
    return tasks_.task(tasks_.row_of(transfer, sender, copy), action.microbatch);
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
  const Transfers& transfers_;
  int iterations_;
  Accumulation accumulation_;
  Saves saves_;
  bool sends_are_listed_;
  int copy_ = 0;       // whose rows are made
  int iteration_ = 0;  // whose actions go onto their streams
  Streams streams_;
  std::map<std::pair<int, int>, RouteId> routes_;
  std::vector<LinkId> shared_links_;
  std::array<GroupTasks, 2> group_of_kind_;  // without parts
  std::vector<Collective> found_;
  std::size_t next_found_ = 0;  // the next that a rank calls
  std::size_t next_step_ = 0;
  Tasks tasks_;
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
