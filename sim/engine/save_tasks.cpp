#include "sim/engine/save_tasks.h"

#include <utility>

namespace pipesim {

SaveTasks::SaveTasks(const SaveCosts& costs, const Saves& saves, int ranks,
                     std::vector<int> iterations, TaskId first, EventPlan& plan)
    : beside_(saves.beside),
      ranks_(static_cast<std::size_t>(ranks)),
      iterations_(std::move(iterations)),
      first_(first),
      publish_ns_(costs.publish_ns),
      appended_(ranks_) {
  constexpr std::int64_t ns_per_second = 1'000'000'000;
  storage_ = plan.network.add_route({plan.network.add_link(ns_per_second)});
  for (const std::int64_t bytes : costs.bytes) {
    storage_ns_.push_back(costs.storage_ns(bytes));
    copy_ns_.push_back(costs.copy_ns(bytes));
  }
}

void SaveTasks::append(int rank, EventPlan& plan) {
  const auto stream = static_cast<StreamId>(rank);
  const std::size_t save = appended_[static_cast<std::size_t>(rank)]++;
  const TaskId write = task(save, rank, SaveStep::write);
  if (beside_) {
    plan.append(stream, task(save, rank, SaveStep::come));
    plan.append(stream, task(save, rank, SaveStep::copy));
    if (save > 0) plan.need_signal(task(save, rank, SaveStep::copy));
    plan.need_signal(write);
  } else {
    plan.append(stream, write);
  }
  if (rank != 0) return;
  const TaskId publish = task(save, rank, SaveStep::publish);
  if (!beside_) plan.append(stream, publish);
  for (std::size_t writer = 0; writer < ranks_; ++writer) plan.need_signal(publish);
}

StreamId SaveTasks::stream_of(TaskId task) const {
  const Part own = part(task);
  const bool waits = !beside_ || own.step == SaveStep::come || own.step == SaveStep::copy;
  return waits ? static_cast<StreamId>(own.rank) : no_stream;
}

std::int64_t SaveTasks::duration_ns(SaveStep step, int rank) const {
  if (step == SaveStep::publish) return publish_ns_;
  return step == SaveStep::copy ? copy_ns_[static_cast<std::size_t>(rank)] : 0;
}

}  // namespace pipesim
