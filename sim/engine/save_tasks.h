// Checkpoints as tasks of the event engine.
//
// Each rank has a part in each checkpoint: its steps, in one number. If synchronous, it writes, and
// rank 0 then publishes, both on their rank's compute stream. If asynchronous, it reaches the SAVE,
// copies once it is done with the checkpoint before, and continues; neither the write nor
// publishing is on a stream. Writes cross one link, the storage, measured in nanoseconds
// instead of bytes: it serves one per nanosecond.
// Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cost/save_costs.h"
#include "traces/event/event_plan.h"
#include "traces/saves.h"

namespace pipesim {

enum class SaveStep : std::uint8_t { come, copy, write, publish };

class SaveTasks {
 public:
  // A rank's part of a checkpoint, counted from 0.
  struct Part {
    std::size_t save;
    int rank;
    SaveStep step;
  };

  SaveTasks() = default;
  // At the ends of those iterations; tasks are numbered from `first` on.
  SaveTasks(const SaveCosts& costs, const Saves& saves, int ranks, std::vector<int> iterations,
            TaskId first, EventPlan& plan);

  std::size_t count() const { return iterations_.size() * ranks_ * steps; }
  bool has(TaskId task) const { return !iterations_.empty() && task >= first_; }
  // Appends a rank's part of its next checkpoint to its stream.
  void append(int rank, EventPlan& plan);

  Part part(TaskId task) const {
    const std::size_t at = (task - first_) / steps;
    return {at / ranks_, static_cast<int>(at % ranks_),
            static_cast<SaveStep>((task - first_) % steps)};
  }
  TaskId task(std::size_t save, int rank, SaveStep step) const {
    const std::size_t at = save * ranks_ + static_cast<std::size_t>(rank);
    return first_ + static_cast<TaskId>(at * steps + static_cast<std::size_t>(step));
  }
  // What waits until a rank is done with a checkpoint: the copy of the next one, or nothing.
  TaskId next_copy(std::size_t save, int rank) const {
    return beside_ && save + 1 < iterations_.size() ? task(save + 1, rank, SaveStep::copy)
                                                    : no_task;
  }

  bool beside() const { return beside_; }
  int iteration(std::size_t save) const { return iterations_[save]; }
  bool begins(SaveStep step) const { return step == (beside_ ? SaveStep::come : SaveStep::write); }
  StreamId stream_of(TaskId task) const;
  RouteId storage() const { return storage_; }
  std::int64_t storage_ns(int rank) const { return storage_ns_[static_cast<std::size_t>(rank)]; }
  // Of all steps but a write.
  std::int64_t duration_ns(SaveStep step, int rank) const;

 private:
  static constexpr std::size_t steps = 4;

  bool beside_ = false;
  std::size_t ranks_ = 0;
  std::vector<int> iterations_;
  TaskId first_ = 0;
  RouteId storage_ = no_route;
  std::int64_t publish_ns_ = 0;
  std::vector<std::int64_t> storage_ns_, copy_ns_;  // by rank
  std::vector<std::size_t> appended_;               // by rank: checkpoints
};

}  // namespace pipesim
