// The tasks of a schedule, as rows of a table: what all microbatches of a stage
// have in common.
//
// A row is a kind of work on a stage: its forward, its backward, a transfer of
// its result, an end of one. A task is a row and a microbatch, in one number.
// Which rows there are, which streams they run on and who signals whom is all
// that the modes of transfer differ in:
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
#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/engine/event/event_engine.h"
#include "sim/engine/p2p.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

// A task's row is its number >> shift, its microbatch the rest.
struct TaskTable {
  enum class Work : std::uint8_t {
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
  static constexpr int work_count = 9;

  struct Row {
    Work work{};
    std::int32_t stage = 0;
    std::int32_t rank = 0;
    std::array<StreamId, 2> streams{no_stream, no_stream};
    std::int32_t successor = -1;  // the row that its end signals, of the same microbatch
    bool needs_signal = false;
    // Whether its input comes from another rank.
    bool has_input = false;
    // Of transfers and their ends, and of what produces for them: the stage at
    // which the result is an input.
    std::int32_t consumer = -1;
    std::int32_t to_rank = -1;
    std::int64_t latency_ns = 0;
    std::int64_t bytes = 0;
    std::int32_t route = -1;                    // in `routes`; -1: no limited link
    std::array<std::int64_t, 2> duration_ns{};  // of compute; of a backward: I, B
  };

  std::vector<Row> rows;  // [work][stage]; an unused one has no streams and no successor
  int stages = 0;
  int shift = 0;
  std::size_t streams = 0;
  std::vector<std::int64_t> links;  // bytes per second of each
  std::vector<std::vector<LinkId>> routes;

  std::size_t row_of(Work work, int stage) const {
    return static_cast<std::size_t>(work) * static_cast<std::size_t>(stages) +
           static_cast<std::size_t>(stage);
  }
  TaskId task(Work work, int stage, int microbatch) const {
    return static_cast<TaskId>(row_of(work, stage) << shift | static_cast<std::size_t>(microbatch));
  }
  const Row& row(TaskId task) const { return rows[task >> shift]; }
  int microbatch(TaskId task) const { return static_cast<int>(task & ((1U << shift) - 1)); }
  std::size_t size() const { return rows.size() << shift; }
};

// Whether a SEND of this stage's result completes by itself.
bool is_eager(const Action& send, const Costs& costs, const Transfers& transfers);

TaskTable make_task_table(const Schedule& schedule, const Costs& costs, const Transfers& transfers);

}  // namespace pipesim
