#include "sim/schedule/task_table.h"

#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"

namespace pipesim {

TaskTableBuilder::TaskTableBuilder(const Schedule& schedule, const Sending& sending,
                                   TaskTable& table)
    : schedule_(schedule),
      placement_(schedule.placement),
      sending_(sending),
      table_(table),
      sends_are_listed_(schedule.has_transfers()),
      streams_(schedule.ranks(), sending.lane) {
  table_.placement = &placement_;
  table_.stages = schedule.stages();
  table_.microbatches = schedule.microbatches;
  while (1 << table_.shift < schedule.microbatches) ++table_.shift;
  table_.rows.resize(static_cast<std::size_t>(table_.stages * placement_.copies()) *
                     task_kind_count);
  table_.is_whole.resize(table_.slots());
}

void TaskTableBuilder::make_rows() {
  for (copy_ = 0; copy_ < placement_.copies(); ++copy_) {
    for (int stage = 0; stage < table_.stages; ++stage) {
      for (const TaskKind work : {TaskKind::forward, TaskKind::backward, TaskKind::weight}) {
        TaskRow& own = add_row(work, stage);
        own.streams[0] = static_cast<StreamId>(own.rank);
      }
    }
    for (int stage = 0; stage < table_.stages; ++stage) {
      for (const Kind kind : {Kind::F, Kind::B}) {
        const int to = output_stage(make_action(stage, kind));
        if (to >= 0 && to < table_.stages) connect(stage, to);
      }
    }
  }
}

TaskRow& TaskTableBuilder::add_row(TaskKind work, int stage) {
  TaskRow& own = row(work, stage);
  own.work = work;
  own.stage = stage;
  own.rank = placement_.rank_of(stage, copy_);
  return own;
}

// The end of `from` signals `to`.
void TaskTableBuilder::add_signal(TaskKind from, int from_stage, TaskKind to, int to_stage) {
  row(from, from_stage).successor = static_cast<std::int32_t>(table_.row_of(to, to_stage, copy_));
  row(to, to_stage).needs_signal = true;
}

// The way of a stage's result to its neighbour.
void TaskTableBuilder::connect(int from, int to) {
  const bool forward = to > from;
  const TaskKind producer = forward ? TaskKind::forward : TaskKind::backward;
  const TaskKind consumer = producer;
  const int from_rank = placement_.rank_of(from, copy_);
  const int to_rank = placement_.rank_of(to, copy_);
  if (from_rank == to_rank) {
    add_signal(producer, from, consumer, to);
    return;
  }
  row(consumer, to).has_input = true;
  row(producer, from).consumer = to;
  const TaskKind transfer = forward ? TaskKind::transfer_forward : TaskKind::transfer_backward;
  TaskRow& own = add_row(transfer, from);
  own.consumer = to;
  own.to_rank = to_rank;

  // Whether the compute stream itself orders a SEND after its producer and a consumer after its
  // RECV.
  const bool async = sending_.is_async;
  const bool by_list = async ? sends_are_listed_ : sending_.lane == TransferLane::compute;
  const Action sent = make_action(from, forward ? Kind::SEND_F : Kind::SEND_B);
  const bool eager = !async && sending_.eager && sending_.eager(sent);
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
    add_signal(first, from, transfer, from);
  } else if (!async) {
    own.streams = {sender, receiver};
  }
  if (eager) {
    last = forward ? TaskKind::receive_forward : TaskKind::receive_backward;
    TaskRow& receive = add_row(last, to);
    receive.consumer = to;
    receive.streams[0] = receiver;
    add_signal(transfer, from, last, to);
  }
  if (!by_list) add_signal(producer, from, first, from);
  if (!by_list || async) add_signal(last, last == transfer ? from : to, consumer, to);
}

void TaskTableBuilder::check_count(std::size_t tasks) const {
  constexpr std::size_t max_tasks = std::size_t{1} << 31;
  if (tasks < max_tasks) return;
  throw input_error(fmt::format("{} x {} are more than the event engine can number; use fewer",
                                plural(schedule_.stages(), "virtual stage"),
                                plural(schedule_.microbatches, "microbatch")));
}

void TaskTableBuilder::make_plan(std::size_t more_tasks) {
  const std::size_t count = table_.row_tasks() + more_tasks;
  check_count(count);
  table_.plan.resize(static_cast<std::size_t>(streams_.count()), count);
  reserve_streams();
  for (std::size_t at = 0; at < table_.rows.size(); ++at) {
    if (!table_.rows[at].needs_signal) continue;
    for (int mb = 0; mb < schedule_.microbatches; ++mb) {
      table_.plan.need_signal(table_.task(at, mb));
    }
  }
}

// A row is on its streams with all its microbatches, or with none.
void TaskTableBuilder::reserve_streams() {
  std::vector<std::size_t> rows(table_.plan.streams.size());
  for (const TaskRow& one : table_.rows) {
    for (const StreamId stream : one.streams) {
      if (stream != no_stream) ++rows[stream];
    }
  }
  for (std::size_t stream = 0; stream < rows.size(); ++stream) {
    table_.plan.reserve(static_cast<StreamId>(stream),
                        rows[stream] * static_cast<std::size_t>(schedule_.microbatches));
  }
}

void TaskTableBuilder::note(const Action& action) {
  if (action.kind == Kind::B) table_.is_whole[table_.slot(action.stage, action.microbatch)] = 1;
}

// Both actions of a cell are one task, the forward's; it needs what either needs.
void TaskTableBuilder::join(const Action& first, const Action& second) {
  if (table_.joined.empty()) {
    table_.joined_at_forward.resize(table_.slots());
    table_.joined_at_backward.resize(table_.slots());
  }
  table_.joined.push_back({table_.task_of(first), table_.task_of(second)});
  const auto at = static_cast<std::uint32_t>(table_.joined.size());
  table_.joined_at_forward[table_.slot(first.stage, first.microbatch)] = at;
  table_.joined_at_backward[table_.slot(second.stage, second.microbatch)] = at;
  if (table_.row(table_.task_of(second)).needs_signal) {
    table_.plan.need_signal(table_.task_of(first));
  }
}

// An end of a transfer: the transfer itself if its ends meet, else a separate SEND or RECV; under
// async a RECV delays nothing. Transfers of one cell run side by side, except where each edge has
// a stream of its own.
void TaskTableBuilder::append_transfer(const Action& action) {
  const TaskId task = table_.task_for(action);
  const TaskRow& row = table_.row(task);
  const bool is_second_end = row.streams[1] != no_stream && is_receive(action.kind);
  const StreamId stream = row.streams[is_second_end ? 1 : 0];
  if (stream == no_stream) return;
  const bool is_batched =
      action.joined && !sending_.is_async && sending_.lane != TransferLane::edge;
  table_.plan.append(stream, task, is_batched);
}

void TaskTableBuilder::add_dependencies() {
  for (const Dependency& dependency : schedule_.dependencies) {
    const TaskId task = table_.task_for(dependency.action);
    table_.dependencies.push_back({table_.task_for(dependency.awaited), task});
    table_.plan.need_signal(task);
  }
  std::ranges::sort(table_.dependencies);
}

TaskId TaskTable::task_for(const Action& action) const {
  if (is_compute(action.kind)) {
    const TaskId task = task_of(action);
    const std::uint32_t joined_to = joined_with(task);
    return joined_to == 0 ? task : joined[joined_to - 1].forward;
  }
  const bool forward = action.kind == Kind::SEND_F || action.kind == Kind::RECV_F;
  const TaskKind send = forward ? TaskKind::send_forward : TaskKind::send_backward;
  const TaskKind receive = forward ? TaskKind::receive_forward : TaskKind::receive_backward;
  const TaskKind transfer = forward ? TaskKind::transfer_forward : TaskKind::transfer_backward;
  const int copy = placement->copy_of(action.microbatch);
  const std::size_t own = row_of(is_send(action.kind) ? send : receive, action.stage, copy);
  if (rows[own].streams[0] != no_stream) return task(own, action.microbatch);
  const int sender = is_send(action.kind) ? action.stage : peer_of(action).stage;
  return task(row_of(transfer, sender, copy), action.microbatch);
}

}  // namespace pipesim
