#include "sim/engine/event_evaluation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/dependency_ends.h"
#include "sim/engine/merged_memory.h"
#include "sim/engine/pace.h"
#include "sim/engine/tasks.h"
#include "sim/schedule/deadlock.h"
#include "traces/base/large_vector.h"
#include "traces/base/prefetch.h"
#include "traces/collective_waits.h"
#include "traces/event/event_engine.h"

namespace pipesim {
namespace {

Kind send_kind(TaskKind transfer) {
  return transfer == TaskKind::transfer_forward ? Kind::SEND_F : Kind::SEND_B;
}

// The engine's model: the effects of a schedule's tasks when they start and end.
class EventEvaluation {
 public:
  EventEvaluation(const Schedule& schedule, const Prepared& prepared)
      : schedule_(schedule),
        costs_(prepared.costs),
        transfers_(prepared.options.transfers),
        microbatches_(schedule.microbatches / prepared.options.iterations),
        is_repeated_(prepared.options.iterations > 1),
        jitter_(prepared.options.jitter),
        sink_(prepared.options.sink),
        footprints_(prepared.footprints),
        tasks_(make_tasks(schedule, costs_, prepared.options)),
        has_buffers_(exchanges_bytes(footprints_) || !tasks_.collectives.empty()),
        accounts_(static_cast<std::size_t>(schedule.ranks())),
        memory_(has_buffers_ && is_repeated_ ? accounts_.size() : 0),
        ends_(schedule.ranks(), prepared.options.iterations),
        next_iterations_(accounts_.size(), microbatches_),
        starts_ns_(accounts_.size()),
        tails_(tasks_.plan.streams.size()),
        inputs_(tasks_.slots()),
        last_inputs_(tasks_.joined.size()),
        paces_(accounts_.size(), Pace(costs_.compute_slowdown_ppm)),
        collectives_(tasks_.collectives.size()),
        missing_(accounts_.size()),
        held_ns_(accounts_.size()),
        paths_to_groups_(tasks_.groups.size()),
        write_starts_ns_(accounts_.size()),
        dependency_ends_(tasks_.dependencies),
        engine_(*this, std::move(tasks_.plan), prepared.options.budget) {}

  Metrics run() {
    if (!engine_.run()) {
      throw_deadlock(schedule_, send_mode_of(transfers_.mode),
                     [this](const Action& send) { return is_eager(send, costs_, transfers_); });
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank) ends_.add(rank, account(rank));
    Metrics metrics = ends_.finish();
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      memory_[rank].finish(footprints_, metrics.ranks[rank]);
    }
    // Messages received before the next iteration began may have caused the peak.
    for (RankMetrics& rank : metrics.ranks) {
      Action& action = rank.peak_memory.action;
      if (takes_microbatch(action.kind)) action.microbatch %= microbatches_;
    }
    return metrics;
  }

  // ---- Callbacks of the engine

  void start(TaskId task) {
    if (task >= tasks_.first_closing()) {
      if (tasks_.saves.has(task)) {
        start_save(task);
        return;
      }
      if (task >= tasks_.first_step) {
        start_step(task);
        return;
      }
      const ClosingTask& closing = tasks_.closing[task - tasks_.first_closing()];
      starts_ns_[static_cast<std::size_t>(closing.rank)] = engine_.now_ns();
      if (closing.group != ClosingTask::no_group && !closing.comes) {
        start_part(task, tasks_.groups[static_cast<std::size_t>(closing.group)]);
      } else {
        engine_.finish_at(task, engine_.now_ns() + closing.duration_ns);
      }
      return;
    }
    const TaskRow& row = tasks_.row(task);
    switch (row.work) {
      case TaskKind::forward:
      case TaskKind::backward:
      case TaskKind::weight: start_compute(task, row); break;
      case TaskKind::transfer_forward:
      case TaskKind::transfer_backward: start_transfer(task, row); break;
      case TaskKind::send_forward:
      case TaskKind::send_backward:
        leave(task, row);
        engine_.finish_at(task, engine_.now_ns());
        break;
      case TaskKind::receive_forward:
      case TaskKind::receive_backward: engine_.finish_at(task, engine_.now_ns()); break;
    }
  }

  void finish(TaskId task) {
    if (task >= tasks_.first_closing()) {
      if (tasks_.saves.has(task)) {
        finish_save(task);
      } else if (task >= tasks_.first_step) {
        finish_step(task);
      } else {
        const ClosingTask& closing = tasks_.closing[task - tasks_.first_closing()];
        if (closing.comes) {
          come_to(closing);
        } else {
          finish_closing(closing);
          if (closing.group != ClosingTask::no_group) finish_part(task, closing);
        }
      }
      return;
    }
    const TaskRow& row = tasks_.row(task);
    switch (row.work) {
      case TaskKind::forward:
      case TaskKind::backward:
      case TaskKind::weight: finish_compute(task, row); return;
      case TaskKind::transfer_forward:
      case TaskKind::transfer_backward: finish_transfer(task, row); break;
      default: finish_end(task, row); break;
    }
    signal_successor(task, row);
    end_dependencies(task, inputs_[tasks_.slot(row.consumer, tasks_.microbatch(task))].path);
  }

  std::array<StreamId, 2> streams_of(TaskId task) const {
    if (task < tasks_.first_closing()) return tasks_.row(task).streams;
    if (tasks_.saves.has(task)) return {tasks_.saves.stream_of(task), no_stream};
    if (task >= tasks_.first_step) return {stream_of_step(task), no_stream};
    return {static_cast<StreamId>(tasks_.closing[task - tasks_.first_closing()].rank), no_stream};
  }
  std::int64_t latency_of(TaskId task) const {
    if (task < tasks_.first_closing()) return tasks_.row(task).latency_ns;
    if (tasks_.saves.has(task)) return 0;
    if (task < tasks_.first_step) {
      const ClosingTask& closing = tasks_.closing[task - tasks_.first_closing()];
      return tasks_.groups[static_cast<std::size_t>(closing.group)].latency_ns;
    }
    const Step& step = tasks_.steps[task - tasks_.first_step];
    const CollectiveTasks& own = tasks_.collectives[step.collective];
    return share_of(own.costs->latency_ns, own.parts, step.part);
  }
  bool is_current(TaskId task, std::uint32_t version) const {
    return paces_[static_cast<std::size_t>(tasks_.row(task).rank)].version() == version;
  }

 private:
  // The end of what ran last on a stream, and the path to it.
  struct Tail {
    std::int64_t end_ns = 0;
    PathTimes path;
  };

  // The input of (stage, microbatch) from another rank: that of its F, and once F has run that of
  // its backward.
  struct Input {
    std::int64_t sent_ns = 0;  // before that: when it was ready to be sent
    std::int64_t arrival_ns = 0;
    PathTimes path;  // to the instant at which it can be used; before: to sent_ns
  };

  // For an overlapped cell: the input that could be used last, and when.
  struct LastInput {
    const Input* input = nullptr;
    std::int64_t time_ns = -1;
  };

  // The progress of a collective.
  struct Progress {
    std::int32_t started = 0, ended = 0;  // of its parts
    std::int64_t start_ns = 0;
    std::int64_t first_part_ns = 0;
    std::int64_t end_ns = 0;
    bool is_done = false;
    std::int64_t released_by = Collective::none;  // before it is done
  };
  using Wait = std::optional<CollectiveWaits::Wait>;

  // ---- Compute

  // The tasks of a cell: one, or the two of an overlapped one.
  struct Cell {
    std::array<TaskId, 2> parts;
    std::size_t size;
    std::span<const TaskId> all() const { return {parts.data(), size}; }
  };
  Cell cell_of(TaskId task) const {
    if (const std::uint32_t joined = tasks_.joined_with(task)) [[unlikely]] {
      return {{task, tasks_.joined[joined - 1].backward}, 2};
    }
    return {{task, 0}, 1};
  }

  // The first microbatch of the iteration after a rank's current one.
  int& next_iteration(int rank) { return next_iterations_[static_cast<std::size_t>(rank)]; }
  RankAccount& account(int rank) { return accounts_[static_cast<std::size_t>(rank)]; }
  const StageFootprint& footprint(int stage) const {
    return footprints_[static_cast<std::size_t>(stage)];
  }

  // An action starts, or ends, which takes memory or gives it back.
  void allocate(int rank, const Action& action, std::int32_t iteration = 0) {
    const std::int64_t now = engine_.now_ns();
    if (!memory_.empty()) [[unlikely]] {
      add_event(rank, {now, action, false, iteration});
    } else {
      account(rank).memory.start(action, footprint(action.stage), now);
    }
  }
  void release(int rank, const Action& action, std::int32_t iteration = 0) {
    const std::int64_t now = engine_.now_ns();
    if (!memory_.empty()) [[unlikely]] {
      add_event(rank, {now, action, true, iteration});
    } else {
      account(rank).memory.end(action, footprint(action.stage), now);
    }
  }
  [[gnu::noinline, gnu::cold]] void add_event(int rank, const MergedMemory::Event& event) {
    MergedMemory& memory = memory_[static_cast<std::size_t>(rank)];
    is_compute(event.action.kind) ? memory.add_compute(event) : memory.add_transfer(event);
    constexpr std::size_t at_once = 64;
    if (memory.waiting() > at_once) memory.settle(event.time_ns, footprints_);
  }

  std::int64_t varied(std::int64_t duration_ns, const Action& action) const {
    if (jitter_ == nullptr) [[likely]]
      return duration_ns;
    return jitter_->applied(action, schedule_.placement.rank_of(action), duration_ns);
  }

  void start_compute(TaskId task, const TaskRow& row) {
    const std::int64_t now = engine_.now_ns();
    if (is_repeated_ && tasks_.microbatch(task) >= next_iteration(row.rank)) [[unlikely]] {
      ends_.add(row.rank, account(row.rank));
      next_iteration(row.rank) += microbatches_;
      if (!memory_.empty()) {
        memory_[static_cast<std::size_t>(row.rank)].begin_iteration(
            next_iteration(row.rank) / microbatches_ - 1, now);
      }
    }
    const Cell cell = cell_of(task);
    std::int64_t duration = 0;
    for (const TaskId part : cell.all()) {
      const Action action = tasks_.action_of(part);
      duration += varied(tasks_.row(part).duration_ns[action.kind == Kind::B ? 1 : 0], action);
      if (has_buffers_) allocate(row.rank, action);
    }
    if (cell.size == 2) {
      const int copy = schedule_.placement.copy_of(tasks_.microbatch(task));
      const auto& overlap_ns = costs_.of(row.stage, copy, schedule_.placement).overlap_ns;
      if (overlap_ns) duration = varied(*overlap_ns, tasks_.action_of(cell.parts[0]));
    }
    starts_ns_[static_cast<std::size_t>(row.rank)] = now;
    bool lacks_parts = false;
    if (const CellCollectives* collectives = tasks_.collectives_with(task)) [[unlikely]] {
      lacks_parts = start_held(*collectives, row.rank, duration);
    }
    if (costs_.compute_slowdown_ppm == 0 && !lacks_parts) {
      engine_.finish_at(task, now + duration);
    } else {
      Pace& pace = paces_[static_cast<std::size_t>(row.rank)];
      pace.start(task, duration, now);
      if (!lacks_parts) engine_.finish_at(task, pace.end_ns(), pace.version());
    }
  }

  void finish_compute(TaskId task, const TaskRow& row) {
    const std::int64_t now = engine_.now_ns();
    const CellCollectives* collectives = tasks_.collectives_with(task);
    if (costs_.compute_slowdown_ppm > 0 || collectives != nullptr) {
      paces_[static_cast<std::size_t>(row.rank)].finish();
    }
    const Cell cell = cell_of(task);
    const Input* awaited = nullptr;  // the cell's last input to arrive
    for (const TaskId part : cell.all()) {
      const Input* input = input_of(part);
      if (input == nullptr) continue;
      if (awaited == nullptr || input->arrival_ns > awaited->arrival_ns) awaited = input;
    }
    // The same by use: a RECV may have held an early arrival back.
    const Input* last = awaited;
    if (cell.size == 2) last = last_inputs_[tasks_.joined_with(task) - 1].input;
    RankAccount& own = account(row.rank);
    const Wait wait = collectives != nullptr ? wait_of(cell, *collectives, row.rank) : std::nullopt;
    const std::int64_t start = starts_ns_[static_cast<std::size_t>(row.rank)];
    const PathTimes* dependency = dependency_ends_.path_to(task, start);
    if (dependency != nullptr && tail(row.rank).end_ns != start &&
        !(wait && wait->arrival_ns == start)) [[unlikely]] {
      tail(row.rank).path = *dependency;
      last = nullptr;
    }
    own.path.compute_ns += occupy(row.rank, now, awaited, last, wait);
    tails_[static_cast<std::size_t>(row.rank)].path = own.path;
    for (const TaskId part : cell.all()) {
      const Action action = tasks_.action_of(part);
      own.pass(action.kind);
      if (has_buffers_) {
        release(row.rank, action);
      } else {
        own.memory.step(action, footprint(action.stage),
                        starts_ns_[static_cast<std::size_t>(row.rank)], now);
      }
      if (sink_) [[unlikely]]
        emit_compute(part, cell.size == 2 && part == task, row.rank, now);
    }
    if (collectives != nullptr && collectives->reduction != Collective::none) {
      const CollectiveTasks& reduction = collective(collectives->reduction);
      engine_.signal(reduction.first_part + static_cast<TaskId>(reduction.parts - 1));
    }
    for (const TaskId part : cell.all()) {
      const TaskRow& part_row = tasks_.row(part);
      if (part_row.successor < 0) continue;
      if (part_row.consumer >= 0) {
        inputs_[tasks_.slot(part_row.consumer, tasks_.microbatch(part))] = {now, 0, own.path};
      }
      signal_successor(part, part_row);
    }
    end_dependencies(task, own.path);
  }

  void end_dependencies(TaskId task, const PathTimes& path) {
    if (dependency_ends_.empty()) return;
    dependency_ends_.end(task, engine_.now_ns(), path,
                         [this](TaskId waiting) { engine_.signal(waiting); });
  }

  const Input* input_of(TaskId compute) const {
    const TaskRow& row = tasks_.row(compute);
    if (!row.has_input) return nullptr;
    return &inputs_[tasks_.slot(row.stage, tasks_.microbatch(compute))];
  }

  // Accounts for the rank's work from its start until now. `awaited`: the input that arrived last;
  // `last`: the one that could be used last; `wait`: for its collectives. The path to the start
  // leads along the rank's stream, or else along `last`; along a collective only for as long as the
  // rank was blocked on it. Returns the duration of the work.
  std::int64_t occupy(int rank, std::int64_t now, const Input* awaited, const Input* last,
                      const Wait& wait) {
    RankAccount& own = account(rank);
    Tail& tail = tails_[static_cast<std::size_t>(rank)];
    const std::int64_t start = starts_ns_[static_cast<std::size_t>(rank)];
    RankAccount::Work work{start, now, 0, 0};
    if (awaited != nullptr) {
      work.input_sent_ns = awaited->sent_ns;
      work.input_arrival_ns = awaited->arrival_ns;
    }
    bool along_collective = false;
    if (wait && wait->arrival_ns > work.input_arrival_ns) [[unlikely]] {
      work.input_sent_ns = wait->since_ns;
      work.input_arrival_ns = wait->arrival_ns;
      along_collective = wait->arrival_ns == start && tail.end_ns != start;
    }
    if (last != nullptr && tail.end_ns != start && !along_collective) tail.path = last->path;
    const auto outcome = own.occupy(work);
    if (along_collective) tail.path.p2p_ns += idle_for(*wait, tail);
    tail.end_ns = now;
    own.path = tail.path;
    return outcome.fresh_ns;
  }

  // How long a stream stood still for a collective. A transfer may have held it until then.
  static std::int64_t idle_for(const CollectiveWaits::Wait& wait, const Tail& tail) {
    return wait.arrival_ns - std::max(tail.end_ns, wait.since_ns);
  }

  // A rank reaches a blocking collective; the last one releases all.
  void come_to(const ClosingTask& closing) {
    const auto index = static_cast<std::size_t>(closing.group);
    GroupTasks& group = tasks_.groups[index];
    if (--group.missing > 0) return;
    const std::int64_t now = engine_.now_ns();
    const auto came_last = [&](TaskId part) { return tail(rank_of_closing(part)).end_ns == now; };
    const auto last = std::ranges::find_if(group.parts, came_last);
    const int rank = last == group.parts.end() ? closing.rank : rank_of_closing(*last);
    PathTimes& path = paths_to_groups_[index] = tail(rank).path;
    const Wait wait = waits_.empty() ? std::nullopt : waits_.take(closing.action, rank);
    if (tail(rank).end_ns < now && wait && wait->arrival_ns == now) {
      path.p2p_ns += idle_for(*wait, tail(rank));
    }
    for (const TaskId part : group.parts) engine_.signal(part);
  }

  // All parts start at one instant; the first sends for them, and they end with it.
  void start_part(TaskId task, const GroupTasks& group) {
    if (task == group.parts.front()) engine_.send(task, group.route, group.bytes);
  }
  void finish_part(TaskId task, const ClosingTask& closing) {
    const GroupTasks& group = tasks_.groups[static_cast<std::size_t>(closing.group)];
    if (task != group.parts.front()) return;
    for (const TaskId part : group.parts) {
      if (part != task) engine_.finish_at(part, engine_.now_ns());
    }
  }

  int rank_of_closing(TaskId task) const {
    return tasks_.closing[task - tasks_.first_closing()].rank;
  }
  Tail& tail(int rank) { return tails_[static_cast<std::size_t>(rank)]; }

  void finish_closing(const ClosingTask& closing, std::int64_t bytes = 0) {
    const std::int64_t now = engine_.now_ns();
    const std::int64_t start = starts_ns_[static_cast<std::size_t>(closing.rank)];
    const Wait wait = waits_.empty() ? std::nullopt : waits_.take(closing.action, closing.rank);
    const bool waited_itself =
        tail(closing.rank).end_ns == start || (wait && wait->arrival_ns == start);
    if (closing.group != ClosingTask::no_group && !waited_itself) {
      tail(closing.rank).path = paths_to_groups_[static_cast<std::size_t>(closing.group)];
    }
    const std::int64_t fresh_ns = occupy(closing.rank, now, nullptr, nullptr, wait);
    if (closing.action.kind == Kind::IDLE) return;  // it only waited for collectives
    account(closing.rank).close(closing.action.kind, fresh_ns);
    if (sink_) [[unlikely]] {
      sink_({closing.action, closing.rank, closing.iteration, start, now, 0, 0, bytes});
    }
  }

  [[gnu::noinline, gnu::cold]] void emit_compute(TaskId task, bool joined, int rank,
                                                 std::int64_t now) {
    Span span{
        tasks_.action_of(task), rank, 0, starts_ns_[static_cast<std::size_t>(rank)], now, 0, 0, 0};
    span.action.joined = joined;
    if (const Input* input = input_of(task)) {
      span.input_sent_ns = input->sent_ns;
      span.input_arrival_ns = input->arrival_ns;
    }
    emit(span);
  }

  // Actions with a microbatch, numbered through all iterations.
  [[gnu::noinline, gnu::cold]] void emit(Span span) {
    span.iteration = span.action.microbatch / microbatches_;
    span.action.microbatch %= microbatches_;
    sink_(span);
  }

  // ---- Checkpoints

  void start_save(TaskId task) {
    const std::int64_t now = engine_.now_ns();
    const SaveTasks& saves = tasks_.saves;
    const auto [save, rank, step] = saves.part(task);
    if (saves.begins(step)) starts_ns_[static_cast<std::size_t>(rank)] = now;
    if (step != SaveStep::write) {
      engine_.finish_at(task, now + saves.duration_ns(step, rank));
      return;
    }
    write_starts_ns_[static_cast<std::size_t>(rank)] = now;
    engine_.send(task, saves.storage(), saves.storage_ns(rank));
  }

  void finish_save(TaskId task) {
    const SaveTasks& saves = tasks_.saves;
    const auto [save, rank, step] = saves.part(task);
    switch (step) {
      case SaveStep::come: return;
      case SaveStep::copy:
        close_save(save, rank);
        engine_.signal(saves.task(save, rank, SaveStep::write));
        return;
      case SaveStep::write:
        engine_.signal(saves.task(save, 0, SaveStep::publish));
        if (rank != 0) end_save(save, rank);
        return;
      case SaveStep::publish: end_save(save, rank); return;
    }
  }

  // A rank has finished a checkpoint.
  void end_save(std::size_t save, int rank) {
    const SaveTasks& saves = tasks_.saves;
    if (!saves.beside()) {
      close_save(save, rank);
      return;
    }
    if (sink_) [[unlikely]] {
      Action action = save_action(rank);
      action.number = 0;  // a rank has one per iteration
      sink_({action, rank, saves.iteration(save), write_starts_ns_[static_cast<std::size_t>(rank)],
             engine_.now_ns(), 0, 0, saved_bytes(rank)});
    }
    if (const TaskId next = saves.next_copy(save, rank); next != no_task) engine_.signal(next);
  }

  // The SAVE ends: its rank continues.
  void close_save(std::size_t save, int rank) {
    finish_closing({save_action(rank), rank, tasks_.saves.iteration(save), 0}, saved_bytes(rank));
  }

  Action save_action(int rank) const {
    return make_action(schedule_.placement.name_stage(rank), Kind::SAVE);
  }
  std::int64_t saved_bytes(int rank) const {
    return costs_.save->bytes[static_cast<std::size_t>(rank)];
  }

  // ---- Collectives

  CollectiveTasks& collective(std::int64_t index) {
    return tasks_.collectives[static_cast<std::size_t>(index)];
  }
  Progress& progress(std::int64_t index) { return collectives_[static_cast<std::size_t>(index)]; }
  std::int64_t& held_ns(int rank) { return held_ns_[static_cast<std::size_t>(rank)]; }
  int& missing(int rank) { return missing_[static_cast<std::size_t>(rank)]; }

  StreamId stream_of_step(TaskId task) const {
    const Step& step = tasks_.steps[task - tasks_.first_step];
    if (step.kind == StepKind::lead) return no_stream;
    const int rank = tasks_.collectives[step.collective].rank;
    if (step.kind == StepKind::call) return static_cast<StreamId>(rank);
    const bool is_beside = tasks_.collectives[step.collective].costs->side_by_side;
    return is_beside ? no_stream : tasks_.collective_stream(rank);
  }

  // Starts a cell that needs collectives, or makes gradients for one, part by part. Returns whether
  // some of its input is still missing.
  bool start_held(const CellCollectives& collectives, int rank, std::int64_t duration) {
    for (const std::int64_t gather : collectives.gathers) {
      if (gather != Collective::none && !progress(gather).is_done) ++missing(rank);
    }
    held_ns(rank) = duration;
    if (collectives.reduction != Collective::none) {
      const CollectiveTasks& own = collective(collectives.reduction);
      for (std::int32_t lead = 0; lead + 1 < own.parts; ++lead) {
        engine_.signal(own.first_lead + static_cast<TaskId>(lead));
      }
    }
    return missing(rank) > 0;
  }

  // The last wait of a cell.
  Wait wait_of(const Cell& cell, const CellCollectives& collectives, int rank) {
    Wait last;
    if (collectives.before != Collective::none) {
      const Progress& before = progress(collectives.before);
      last = {before.start_ns, before.end_ns};
    }
    for (const TaskId part : cell.all()) {
      const Wait one = waits_.take(tasks_.action_of(part), rank);
      if (one && (!last || one->arrival_ns > last->arrival_ns)) last = one;
    }
    return last;
  }

  void start_step(TaskId task) {
    const std::int64_t now = engine_.now_ns();
    const Step& step = tasks_.steps[task - tasks_.first_step];
    const CollectiveTasks& own = tasks_.collectives[step.collective];
    switch (step.kind) {
      case StepKind::call: engine_.finish_at(task, now); return;
      case StepKind::lead:
        engine_.finish_at(task, now + own.costs->lead_ns(held_ns(own.rank), step.part + 1));
        return;
      case StepKind::part: break;
    }
    Progress& own_progress = progress(step.collective);
    if (own_progress.started++ == 0) {
      own_progress.start_ns = now;
      allocate(own.rank, own.action, own.iteration);
    }
    change_pace(own.rank, true);
    engine_.send(task, own.route, own.costs->bytes_of(step.part));
  }

  void finish_step(TaskId task) {
    const Step& step = tasks_.steps[task - tasks_.first_step];
    const CollectiveTasks& own = tasks_.collectives[step.collective];
    switch (step.kind) {
      case StepKind::call:
        if (own.parts > 0) {
          const std::int32_t called = own.costs->side_by_side ? own.parts : 1;
          for (std::int32_t part = 0; part < called; ++part) {
            engine_.signal(own.first_part + static_cast<TaskId>(part));
          }
        } else if (progress(own.gather).is_done) {
          release(step.collective);
        } else {
          progress(own.gather).released_by = step.collective;
        }
        return;
      case StepKind::lead: engine_.signal(own.first_part + static_cast<TaskId>(step.part)); return;
      case StepKind::part: break;
    }
    change_pace(own.rank, false);
    Progress& own_progress = progress(step.collective);
    if (own_progress.ended++ == 0) {
      own_progress.first_part_ns = engine_.now_ns();
      if (own.waiting != no_task) engine_.signal(own.waiting);
    }
    if (own_progress.ended == own.parts) finish_collective(step.collective);
  }

  void finish_collective(std::int64_t index) {
    const std::int64_t now = engine_.now_ns();
    const CollectiveTasks& own = collective(index);
    Progress& done = progress(index);
    done.is_done = true;
    done.end_ns = now;
    if (own.held != no_task) engine_.signal(own.held);
    waits_.add(own.action, own.rank, done.start_ns, now, done.first_part_ns);
    if (sink_) [[unlikely]] {
      Span span{own.action, own.rank, own.iteration, done.start_ns, now, 0, 0, own.costs->bytes};
      if (own.action.kind == Kind::UNSHARD) span.input_arrival_ns = done.first_part_ns;
      sink_(span);
    }
    if (own.end != no_task) engine_.signal(own.end);
    if (own.action.kind != Kind::UNSHARD) return;
    if (missing(own.rank) > 0) complete(own);
    if (done.released_by != Collective::none) release(done.released_by);
  }

  // The last part of a stage's weights has arrived, so the running work can complete its share.
  void complete(const CollectiveTasks& gather) {
    Pace& pace = paces_[static_cast<std::size_t>(gather.rank)];
    if (pace.task() != gather.waiting) return;
    const std::int64_t now = engine_.now_ns();
    pace.hold_back(gather.costs->lead_ns(held_ns(gather.rank), 1), now);
    if (--missing(gather.rank) > 0) return;
    engine_.finish_at(pace.task(), pace.end_ns(), pace.version());
  }

  // A RESHARD happens once its rank has reached it and the weights have arrived.
  void release(std::int64_t index) {
    const std::int64_t now = engine_.now_ns();
    const CollectiveTasks& own = collective(index);
    release(own.rank, own.action, own.iteration);
    if (sink_) [[unlikely]]
      sink_({own.action, own.rank, own.iteration, now, now, 0, 0, 0});
  }

  // ---- Transfers

  // Notes that a result is sent now, and the path to that: its producer's if that ended now, else
  // that of a stream that delayed it.
  void leave(TaskId task, const TaskRow& row) {
    const std::int64_t now = engine_.now_ns();
    Input& input = inputs_[tasks_.slot(row.consumer, tasks_.microbatch(task))];
    if (!row.needs_signal || input.sent_ns != now) {
      const PathTimes* dependency = dependency_ends_.path_to(task, now);
      input.path = dependency != nullptr ? *dependency : PathTimes{};
      for (const StreamId stream : row.streams) {
        if (stream == no_stream || tails_[stream].end_ns != now) continue;
        input.path = tails_[stream].path;
        break;
      }
    }
    input.sent_ns = now;
    input.arrival_ns = 0;
  }

  void start_transfer(TaskId task, const TaskRow& row) {
    leave(task, row);
    if (row.bytes > 0) {
      const int mb = tasks_.microbatch(task);
      allocate(row.to_rank, peer_of(make_action(row.stage, send_kind(row.work), mb)),
               mb / microbatches_);
    }
    for (const int rank : {row.rank, row.to_rank}) change_pace(rank, true);
    engine_.send(task, row.route, row.bytes);
  }

  void finish_transfer(TaskId task, const TaskRow& row) {
    const std::int64_t now = engine_.now_ns();
    const int mb = tasks_.microbatch(task);
    Input& input = inputs_[tasks_.slot(row.consumer, mb)];
    prefetch_ahead(&input, 4);
    input.arrival_ns = now;
    input.path.p2p_ns += now - input.sent_ns;
    for (const StreamId stream : row.streams) {
      if (stream != no_stream) tails_[stream] = {now, input.path};
    }
    const Action send = make_action(row.stage, send_kind(row.work), mb);
    if (row.bytes > 0) release(row.rank, send, mb / microbatches_);
    for (const int rank : {row.rank, row.to_rank}) change_pace(rank, false);
    if (sink_) [[unlikely]] {
      emit({send, row.rank, 0, input.sent_ns, now, 0, 0, row.bytes});
      emit({peer_of(send), row.to_rank, 0, input.sent_ns, now, 0, 0, row.bytes});
    }
  }

  // Ends the SEND or RECV of a transfer that does not block it.
  void finish_end(TaskId task, const TaskRow& row) {
    const std::int64_t now = engine_.now_ns();
    Input& input = inputs_[tasks_.slot(row.consumer, tasks_.microbatch(task))];
    Tail& tail = tails_[row.streams[0]];
    // If the stream reached a RECV after the arrival, its consumer waited for the stream.
    const bool is_receive = row.work >= TaskKind::receive_forward;
    if (is_receive && tail.end_ns == now) input.path = tail.path;
    tail = {now, input.path};
  }

  void signal_successor(TaskId task, const TaskRow& row) {
    if (row.successor < 0) return;
    TaskId next = tasks_.task(static_cast<std::size_t>(row.successor), tasks_.microbatch(task));
    if (const std::uint32_t joined = tasks_.joined_with(next)) [[unlikely]] {
      const TaskId forward = tasks_.joined[joined - 1].forward;
      LastInput& last = last_inputs_[joined - 1];
      const bool is_input = row.work >= TaskKind::transfer_forward;
      // At a tie the forward's counts.
      if (is_input && (last.time_ns < engine_.now_ns() || next == forward)) {
        last = {&inputs_[tasks_.slot(row.consumer, tasks_.microbatch(task))], engine_.now_ns()};
      }
      next = forward;
    }
    engine_.signal(next);
  }

  // A transfer or collective that begins or ends at a rank may slow its compute down or speed it
  // up. The end of work that lacks weights is not known yet.
  void change_pace(int rank, bool begins) {
    if (costs_.compute_slowdown_ppm == 0) return;
    Pace& pace = paces_[static_cast<std::size_t>(rank)];
    if (!pace.change(begins ? 1 : -1, engine_.now_ns()) || missing(rank) > 0) return;
    engine_.finish_at(pace.task(), pace.end_ns(), pace.version());
  }

  const Schedule& schedule_;
  const Costs& costs_;
  Transfers transfers_;
  std::int32_t microbatches_;  // of an iteration
  bool is_repeated_;           // by a second one
  const Jitter* jitter_;       // or null
  const SpanSink& sink_;
  const std::vector<StageFootprint>& footprints_;
  Tasks tasks_;
  bool has_buffers_;  // or gathered weights
  std::vector<RankAccount> accounts_;
  std::vector<MergedMemory> memory_;  // by rank, of several iterations
  IterationEnds ends_;
  std::vector<int> next_iterations_;     // by rank
  std::vector<std::int64_t> starts_ns_;  // of each rank's current work
  std::vector<Tail> tails_;              // by stream; a rank's compute stream has its number
  LargeVector<Input> inputs_;            // by stage and microbatch
  std::vector<LastInput> last_inputs_;   // by joined cell
  std::vector<Pace> paces_;              // by rank
  std::vector<Progress> collectives_;
  // By rank: how many collectives its work still lacks parts of, and its own duration.
  std::vector<int> missing_;
  std::vector<std::int64_t> held_ns_;
  std::vector<PathTimes> paths_to_groups_;
  std::vector<std::int64_t> write_starts_ns_;  // by rank, of its checkpoint
  DependencyEnds dependency_ends_;
  CollectiveWaits waits_;
  EventEngine<EventEvaluation> engine_;
};

}  // namespace

Metrics evaluate_by_events(const Schedule& program, const Prepared& prepared) {
  return EventEvaluation(program, prepared).run();
}

}  // namespace pipesim
