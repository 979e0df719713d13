// A schedule as tasks of the event engine.
//
// A row is a kind of work on a stage: its forward, its backward, a transfer of
// its result, an end of one. A task is a row and a microbatch, in one number;
// closing work comes after the rows, and then the steps of collectives, whose
// parts run on a stream of their rank's own, and at last checkpoints (save_tasks.h). Which rows
// there are, which streams they run on and who signals whom is all that the modes of transfer
// differ in:
//
//   mode       SEND and RECV run on            and wait for
//   async      SEND the compute stream, if     the list to come to the SEND, else
//              listed; the transfer on none    for the producer
//   blocking   both compute streams            each other
//   fifo       both communication streams      each other and the producer
//   edge-fifo  both ends' streams of the edge  each other and the producer
//
// An eager SEND ends by itself: it, the transfer and the RECV are then three
// tasks, the first and last of no length. Plain values; any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/collectives.h"
#include "sim/engine/event/event_plan.h"
#include "sim/engine/save_tasks.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/schedule.h"
#include "traces/base/large_vector.h"

namespace pipesim {

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

// A task outside the rows: a gradient reduction, a blocking collective, an optimizer step.
// The parts of a blocking collective have no duration of their own. One of kind IDLE ends an
// iteration that does not step, and does nothing but wait for its rank's collectives.
struct ClosingTask {
  static constexpr std::int32_t no_group = -1;

  Action action;
  int rank;
  int iteration;
  std::int64_t duration_ns;
  // Of a blocking collective: which, in `groups`, and whether it is the rank's arrival, which takes
  // no time, or its part, which waits until all have arrived.
  std::int32_t group = no_group;
  bool comes = false;
};

// A blocking collective of an iteration: the parts of the ranks of its group, and how many of them
// have not arrived yet. Its bytes are sent by the first part, and the others end with it.
struct GroupTasks {
  std::vector<TaskId> parts;
  std::size_t missing = 0;
  RouteId route = no_route;
  std::int64_t latency_ns = 0;
  std::int64_t bytes = 0;
};

// The parts of a collective follow each other on its rank's stream for them, or go side by
// side. The first part (each part, if they don't follow each other or for a REDUCE_GRAD within a
// cell) is released by: the call, when the rank comes to it; a lead, which lasts as long as the
// cell runs before a part's gradients exist; finally the cell's end.
struct CollectiveTasks {
  Action action;
  const CollectiveCosts* costs = nullptr;  // of a RESHARD none
  std::int32_t rank = 0;
  std::int32_t iteration = 0;
  std::int32_t parts = 0;  // of a RESHARD none
  RouteId route = no_route;
  TaskId first_part = 0;
  TaskId first_lead = 0;  // of parts - 1, if it is within a cell
  bool is_within_cell = false;
  std::int64_t gather = Collective::none;  // of a RESHARD
  TaskId waiting = no_task;                // for the first part: a cell, by its first action
  TaskId held = no_task;                   // for the last: another one
  TaskId end = no_task;                    // of the rank's last: what ends its iteration
};

enum class StepKind : std::uint8_t { call, lead, part };
struct Step {
  StepKind kind;
  std::uint32_t collective;
  std::int32_t part;  // or lead
};

// A cell's ties with collectives: those whose first part it needs, one per stage; the one that goes
// on while it runs; and the one whose end it waits for.
struct Ties {
  std::array<std::int64_t, 2> gathers{Collective::none, Collective::none};
  std::int64_t reduction = Collective::none;
  std::int64_t before = Collective::none;
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

struct Tasks {
  std::vector<TaskRow> rows;             // [work][copy][stage]
  const Placement* placement = nullptr;  // the program's, which outlives this
  int stages = 0;
  int shift = 0;  // a task is row << shift | microbatch
  std::vector<ClosingTask> closing;
  std::vector<GroupTasks> groups;  // [iteration][kind], where there are any
  std::vector<JoinedTasks> joined;
  std::vector<TaskDependency> dependencies;  // sorted
  std::vector<CollectiveTasks> collectives;
  std::vector<Step> steps;
  StreamId first_collective_stream = no_stream;  // one per rank, if there are any
  std::vector<Ties> ties;
  LargeVector<std::uint32_t> ties_of_cell;  // by its first task: an index in `ties` plus one, or 0
  // By slot.
  LargeVector<std::uint8_t> is_whole;  // whether a backward is a B
  // Where there are joined cells: an index in `joined` plus one, or 0.
  LargeVector<std::uint32_t> joined_at_forward;
  LargeVector<std::uint32_t> joined_at_backward;
  SaveTasks saves;  // after the steps
  EventPlan plan;

  std::size_t first_closing() const { return rows.size() << shift; }
  std::size_t first_step = 0;
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

  // Null if a cell has no ties with collectives.
  const Ties* ties_with(TaskId cell) const {
    if (ties.empty() || ties_of_cell[cell] == 0) return nullptr;
    return &ties[ties_of_cell[cell] - 1];
  }
  StreamId collective_stream(int rank) const {
    return first_collective_stream + static_cast<StreamId>(rank);
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
};

// Whether a SEND is eager.
bool is_eager(const Action& send, const Costs& costs, const Transfers& transfers);

// `program` is of as many iterations as the options say, as unroll() makes one.
Tasks make_tasks(const Schedule& program, const Costs& costs, const SimulationOptions& options);

}  // namespace pipesim
