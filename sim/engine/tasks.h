// A schedule with costs as tasks of the event engine.
//
// The rows of a task table come first (sim/schedule/task_table.h), then closing work, then the
// steps of collectives, whose parts run on a stream of their rank's own, and at last checkpoints
// (save_tasks.h). Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/collectives.h"
#include "sim/engine/save_tasks.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/task_table.h"
#include "traces/base/large_vector.h"

namespace pipesim {

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

// What a cell has to do with collectives: those whose first part it needs, one per stage; the one
// that goes on while it runs; and the one whose end it waits for.
struct CellCollectives {
  std::array<std::int64_t, 2> gathers{Collective::none, Collective::none};
  std::int64_t reduction = Collective::none;
  std::int64_t before = Collective::none;
};

struct Tasks : TaskTable {
  std::vector<ClosingTask> closing;
  std::vector<GroupTasks> groups;  // [iteration][kind], where there are any
  std::vector<CollectiveTasks> collectives;
  std::vector<Step> steps;
  StreamId first_collective_stream = no_stream;  // one per rank, if there are any
  std::vector<CellCollectives> cell_collectives;
  LargeVector<std::uint32_t>
      collectives_of_cell;  // by its first task: an index in the former plus one, or 0
  SaveTasks saves;          // after the steps

  std::size_t first_closing() const { return row_tasks(); }
  std::size_t first_step = 0;

  // Null if a cell has nothing to do with collectives.
  const CellCollectives* collectives_with(TaskId cell) const {
    if (cell_collectives.empty() || collectives_of_cell[cell] == 0) return nullptr;
    return &cell_collectives[collectives_of_cell[cell] - 1];
  }
  StreamId collective_stream(int rank) const {
    return first_collective_stream + static_cast<StreamId>(rank);
  }
};

// Whether a SEND is eager.
bool is_eager(const Action& send, const Costs& costs, const Transfers& transfers);

// `program` is of as many iterations as the options say, as unroll() makes one.
Tasks make_tasks(const Schedule& program, const Costs& costs, const SimulationOptions& options);

}  // namespace pipesim
