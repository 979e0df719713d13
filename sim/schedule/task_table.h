// A schedule as tasks on streams: what the event engine plays, with times or without.
//
// A row is a kind of work on a stage: its forward, its backward, a transfer of its result, an end
// of one. A task is a row and a microbatch, in one number. Modes of transfer differ only in which
// rows there are, which streams they run on and who signals whom:
//
//   mode       SEND and RECV run on            and wait for
//   async      SEND the compute stream, if     the list to come to the SEND, else
//              listed; the transfer on none    for the producer
//   blocking   both compute streams            each other
//   fifo       both communication streams      each other and the producer
//   edge-fifo  both ends' streams of the edge  each other and the producer
//
// An eager SEND ends by itself: it, the transfer and the RECV are then three tasks, the first and
// last of no length. Plain values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "sim/schedule/deadlock.h"
#include "sim/schedule/schedule.h"
#include "traces/base/large_vector.h"
#include "traces/event/event_plan.h"

namespace pipesim {

// How transfers hold up what comes after them.
struct Sending {
  bool is_async = false;                      // a RECV delays nothing, a SEND takes no stream
  TransferLane lane = TransferLane::compute;  // else: the stream of both ends
  EagerSends eager;
};

enum class TaskKind : std::uint8_t {
  forward,
  backward,  // I or B
  weight,
  transfer_forward,  // of the stage's output, to the next stage
  transfer_backward,
  send_forward,  // the SEND alone, where it ends by itself
  send_backward,
  receive_forward,  // the RECV alone, where its SEND is eager; of the stage that receives
  receive_backward,
};
inline constexpr int task_kind_count = 9;

// What all microbatches of a stage have in common; an unused row
// is on no stream and signals nothing.
struct TaskRow {
  TaskKind work{};
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  std::array<StreamId, 2> streams{no_stream, no_stream};
  std::int32_t successor = -1;  // the row that its end signals, of the same microbatch
  bool needs_signal = false;
  bool has_input = false;  // that comes from another rank
  // Of transfers and their ends, and of what produces for them: the stage at
  // which the result is an input.
  std::int32_t consumer = -1;
  // Of transfers.
  std::int32_t to_rank = -1;
  RouteId route = no_route;
  std::int64_t latency_ns = 0;
  std::int64_t bytes = 0;
  std::array<std::int64_t, 2> duration_ns{};  // of compute; of a backward: I, B
};

// A dependency of the schedule: the end of one task releases another.
struct TaskDependency {
  TaskId awaited;
  TaskId task;

  auto operator<=>(const TaskDependency&) const = default;
};

// The tasks of an overlapped cell; the engine knows only the forward's.
struct JoinedTasks {
  TaskId forward;
  TaskId backward;
};

struct TaskTable {
  std::vector<TaskRow> rows;             // [work][copy][stage]
  const Placement* placement = nullptr;  // the schedule's, which outlives this
  int stages = 0;
  int microbatches = 0;
  int shift = 0;  // a task is row << shift | microbatch
  std::vector<JoinedTasks> joined;
  std::vector<TaskDependency> dependencies;  // sorted
  // By slot.
  LargeVector<std::uint8_t> is_whole;  // whether a backward is a B
  // Where there are joined cells: an index in `joined` plus one, or 0.
  LargeVector<std::uint32_t> joined_at_forward;
  LargeVector<std::uint32_t> joined_at_backward;
  EventPlan plan;

  std::size_t row_tasks() const { return rows.size() << shift; }
  std::size_t row_of(TaskKind work, int stage, int copy) const {
    const int first = (static_cast<int>(work) * placement->copies() + copy) * stages;
    return static_cast<std::size_t>(first + stage);
  }
  const TaskRow& row(TaskId task) const { return rows[task >> shift]; }
  int microbatch(TaskId task) const { return static_cast<int>(task & ((1U << shift) - 1)); }
  TaskId task(std::size_t row, int microbatch) const {
    return static_cast<TaskId>(row << shift | static_cast<std::size_t>(microbatch));
  }
  // The task of an F, I, W or B.
  TaskId task_of(const Action& compute) const {
    const TaskKind work = compute.kind == Kind::F   ? TaskKind::forward
                          : compute.kind == Kind::W ? TaskKind::weight
                                                    : TaskKind::backward;
    return task(row_of(work, compute.stage, placement->copy_of(compute.microbatch)),
                compute.microbatch);
  }
  // The action of a compute task.
  Action action_of(TaskId compute) const {
    const TaskRow& own = row(compute);
    const int mb = microbatch(compute);
    switch (own.work) {
      case TaskKind::forward: return make_action(own.stage, Kind::F, mb);
      case TaskKind::weight: return make_action(own.stage, Kind::W, mb);
      default:
        return make_action(own.stage, is_whole[slot(own.stage, mb)] != 0 ? Kind::B : Kind::I, mb);
    }
  }

  // The task of an action that has one. Both actions of an overlapped cell are the forward's; an
  // end of a transfer that is no task of its own is the transfer.
  TaskId task_for(const Action& action) const;
  // Calls signal(task) for each task that its end releases.
  template <typename Signal>
  void release(TaskId task, Signal signal) const {
    pass_on(task, signal);
    if (const std::uint32_t joined_to = joined_with(task)) {
      pass_on(joined[joined_to - 1].backward, signal);
    }
    for (auto at = std::ranges::lower_bound(dependencies, task, {}, &TaskDependency::awaited);
         at != dependencies.end() && at->awaited == task; ++at) {
      signal(at->task);
    }
  }

  // Tables by (stage, microbatch).
  std::size_t slot(int stage, int microbatch) const {
    return (static_cast<std::size_t>(stage) << shift) + static_cast<std::size_t>(microbatch);
  }
  std::size_t slots() const { return static_cast<std::size_t>(stages) << shift; }

  // The overlapped cell that a task is in: an index in `joined` plus one, or 0.
  std::uint32_t joined_with(TaskId task) const {
    if (joined.empty()) return 0;
    const TaskRow& own = row(task);
    const std::size_t at = slot(own.stage, microbatch(task));
    if (own.work == TaskKind::forward) return joined_at_forward[at];
    return own.work == TaskKind::backward ? joined_at_backward[at] : 0;
  }

 private:
  template <typename Signal>
  void pass_on(TaskId task, Signal& signal) const {
    const std::int32_t successor = row(task).successor;
    if (successor < 0) return;
    const TaskId next = this->task(static_cast<std::size_t>(successor), microbatch(task));
    const std::uint32_t joined_to = joined_with(next);
    signal(joined_to == 0 ? next : joined[joined_to - 1].forward);
  }
};

// Fills a table. Other tasks may follow those of its rows, and be put on the same streams.
class TaskTableBuilder {
 public:
  // All outlive this.
  TaskTableBuilder(const Schedule& schedule, const Sending& sending, TaskTable& table);

  Streams& streams() { return streams_; }
  // The rows; then, once all streams are numbered, the plan, with room for more tasks.
  void make_rows();
  void make_plan(std::size_t more_tasks);
  // Throws if there would be too many tasks in all.
  void check_count(std::size_t tasks) const;
  // Puts a part of a rank's list on its streams. Calls other(place) for all but F, I, W, B and
  // transfers.
  template <typename Other>
  void fill_streams(int rank, std::size_t begin, std::size_t end, Other other) {
    const auto list = schedule_.actions[rank];
    for (std::size_t i = begin; i < end; ++i) {
      const Action& action = list[i];
      if (is_compute(action.kind)) {
        table_.plan.append(static_cast<StreamId>(rank), table_.task_of(action));
        note(action);
        if (!action.joined) continue;
        note(list[++i]);
        join(action, list[i]);
      } else if (is_transfer(action.kind)) {
        append_transfer(action);
      } else {
        other(i);
      }
    }
  }
  // At last: what the schedule waits for besides.
  void add_dependencies();

 private:
  TaskRow& row(TaskKind work, int stage) { return table_.rows[table_.row_of(work, stage, copy_)]; }
  TaskRow& add_row(TaskKind work, int stage);
  void connect(int from, int to);
  void add_signal(TaskKind from, int from_stage, TaskKind to, int to_stage);
  void reserve_streams();
  void note(const Action& action);
  void join(const Action& first, const Action& second);
  void append_transfer(const Action& action);

  const Schedule& schedule_;
  const Placement& placement_;
  const Sending& sending_;
  TaskTable& table_;
  bool sends_are_listed_;
  int copy_ = 0;  // whose rows are made
  Streams streams_;
};

}  // namespace pipesim
