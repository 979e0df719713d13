#include "sim/schedule/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/schedule/task_table.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"
#include "traces/event/event_engine.h"

namespace pipesim {
namespace {

// How the check sees transfers. A compute schedule has none, and is checked by its data alone.
Sending sending_of(const Schedule& schedule, SendMode mode, const EagerSends& eager) {
  if (mode != SendMode::buffered) return {false, lane_of(mode), eager};
  if (!schedule.has_transfers()) return {true, TransferLane::compute, {}};
  return {false, TransferLane::compute, [](const Action&) { return true; }};
}

// A schedule's tasks played without times: everything that can run, does.
class UntimedTasks {
 public:
  UntimedTasks(const Schedule& schedule, SendMode mode, const EagerSends& eager)
      : schedule_(schedule),
        mode_(mode),
        sending_(sending_of(schedule, mode, eager)),
        builder_(schedule, sending_, table_),
        engine_(*this, make_plan()) {}

  std::optional<std::string> run() {
    if (engine_.run()) return std::nullopt;
    return describe_cycle();
  }

  // Callbacks of the engine.
  void start(TaskId task) { engine_.finish_at(task, 0); }
  void finish(TaskId task) {
    table_.release(task, [this](TaskId next) { engine_.signal(next); });
  }
  std::array<StreamId, 2> streams_of(TaskId task) const { return table_.row(task).streams; }
  static std::int64_t latency_of(TaskId /*task*/) { return 0; }
  static bool is_current(TaskId /*task*/, std::uint32_t /*version*/) { return true; }

 private:
  EventPlan make_plan() {
    builder_.make_rows();
    builder_.make_plan(0);
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      builder_.fill_streams(rank, 0, schedule_.actions[rank].size(), [](std::size_t) {});
    }
    builder_.add_dependencies();
    return std::move(table_.plan);
  }

  // What the head of a stuck stream waits for: an action on another stream.
  struct Wait {
    StreamId stream;
    Action head;  // the waiting action
    Action awaited;
  };

  bool is_done(const Action& action) const { return engine_.is_released(table_.task_for(action)); }

  bool at_head(StreamId stream, TaskId task) const {
    const auto head = engine_.head_of(stream);
    return std::ranges::find(head, task, &EventPlan::Entry::task) != head.end();
  }

  // The action of a task at its place in a stream: of a meeting its end there.
  Action action_at(StreamId stream, TaskId task) const {
    const TaskRow& row = table_.row(task);
    const int mb = table_.microbatch(task);
    switch (row.work) {
      case TaskKind::forward:
      case TaskKind::backward:
      case TaskKind::weight: return table_.action_of(task);
      case TaskKind::receive_forward: return make_action(row.stage, Kind::RECV_F, mb);
      case TaskKind::receive_backward: return make_action(row.stage, Kind::RECV_B, mb);
      default: break;
    }
    const bool forward =
        row.work == TaskKind::transfer_forward || row.work == TaskKind::send_forward;
    const Action send = make_action(row.stage, forward ? Kind::SEND_F : Kind::SEND_B, mb);
    return row.streams[1] == stream ? peer_of(send) : send;
  }

  // The stream of an action's task; of a meeting that of the lower rank.
  StreamId stream_of(const Action& action) const {
    const TaskRow& row = table_.row(table_.task_for(action));
    return row.streams[1] != no_stream && row.to_rank < row.rank ? row.streams[1] : row.streams[0];
  }

  // The action on another stream that must have run before `action`, if any.
  // A rank's own order takes care of F -> I -> W; under `rendezvous` and
  // `buffered` also of SEND and RECV around their compute.
  std::optional<Action> awaited_by(const Action& action) const {
    if (action.kind == Kind::W) return std::nullopt;
    const auto producer = producer_of(action, schedule_.stages());
    if (!producer) return std::nullopt;
    const bool streamed = mode_ == SendMode::fifo || mode_ == SendMode::edge_fifo;
    if (is_send(action.kind)) return streamed ? producer : std::nullopt;
    if (is_receive(action.kind)) {
      const bool meets = table_.task_for(action) == table_.task_for(*producer);
      return meets ? std::nullopt : producer;
    }
    if (producer->stage == action.stage) return std::nullopt;
    const auto& placement = schedule_.placement;
    const bool local = placement.rank_of(*producer) == placement.rank_of(action);
    if (local || sending_.is_async) return producer;
    return streamed ? std::optional(receive_for(action)) : std::nullopt;
  }

  Wait wait_of(StreamId stream) const {
    for (const EventPlan::Entry entry : engine_.head_of(stream)) {
      const TaskId task = entry.task();
      if (engine_.is_released(task)) continue;
      const Action own = action_at(stream, task);
      for (const StreamId other : table_.row(task).streams) {
        if (other == no_stream || other == stream || at_head(other, task)) continue;
        return {other, own, peer_of(own)};  // the other end has not reached its stream's head
      }
      // The producers for all parts of the task: both actions of a compute cell, both ends of a
      // transfer.
      std::array<Action, 2> parts{own, own};
      if (is_transfer(own.kind) && table_.task_for(peer_of(own)) == task) parts[1] = peer_of(own);
      if (const std::uint32_t joined = table_.joined_with(task)) {
        parts[1] = table_.action_of(table_.joined[joined - 1].backward);
      }
      for (const Action& part : parts) {
        const auto producer = awaited_by(part);
        if (producer && !is_done(*producer)) {
          return {stream_of(*producer), own, as_written(*producer)};
        }
      }
      for (const auto& [action, awaited] : schedule_.dependencies) {
        if (table_.task_for(action) == task && !is_done(awaited)) {
          return {stream_of(awaited), action, awaited};
        }
      }
    }
    throw std::logic_error("a stuck stream that waits for nothing");
  }

  // Rules name any backward B: the schedule's I or B.
  Action as_written(const Action& action) const {
    return action.kind == Kind::B ? table_.action_of(table_.task_of(action)) : action;
  }

  std::string describe_cycle() {
    StreamId stream = 0;
    while (engine_.head_of(stream).empty()) ++stream;
    std::vector<StreamId> path;
    std::vector<Wait> waits;
    constexpr std::size_t not_there = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> position(static_cast<std::size_t>(builder_.streams().count()),
                                      not_there);
    while (position[stream] == not_there) {
      position[stream] = path.size();
      path.push_back(stream);
      waits.push_back(wait_of(stream));
      stream = waits.back().stream;
    }
    const std::vector<std::string> names = builder_.streams().names();
    std::string text = "deadlock: ";
    for (std::size_t i = position[stream]; i < path.size(); ++i) {
      const Wait& wait = waits[i];
      if (i > position[stream]) text += "; ";
      text += fmt::format("{} on {} waits for {}", to_text(wait.head), names[path[i]],
                          to_text(wait.awaited));
      const TaskId first = engine_.head_of(wait.stream).front().task();
      const std::string other_head = to_text(action_at(wait.stream, first));
      if (other_head != to_text(wait.awaited)) {
        text += fmt::format(", which comes after {}", other_head);
      }
      text += fmt::format(" on {}", names[wait.stream]);
    }
    return text;
  }

  const Schedule& schedule_;
  SendMode mode_;
  Sending sending_;
  TaskTable table_;
  TaskTableBuilder builder_;
  EventEngine<UntimedTasks> engine_;
};

struct Mode {
  SendMode mode;
  std::string_view name;
  TransferLane lane;
};
constexpr std::array<Mode, 4> send_modes{
    {{SendMode::buffered, "buffered", TransferLane::compute},
     {SendMode::rendezvous, "rendezvous", TransferLane::compute},
     {SendMode::fifo, "fifo", TransferLane::rank},
     {SendMode::edge_fifo, "edge-fifo", TransferLane::edge}}};
const Mode& entry_of(SendMode mode) { return *std::ranges::find(send_modes, mode, &Mode::mode); }

}  // namespace

TransferLane lane_of(SendMode mode) { return entry_of(mode).lane; }
std::string_view send_mode_name(SendMode mode) { return entry_of(mode).name; }

std::vector<SendMode> all_send_modes() {
  std::vector<SendMode> all(send_modes.size());
  std::ranges::transform(send_modes, all.begin(), &Mode::mode);
  return all;
}

std::vector<std::string> send_mode_names() {
  std::vector<std::string> names;
  for (const Mode& mode : send_modes) names.emplace_back(mode.name);
  return names;
}

SendMode parse_send_mode(std::string_view name) {
  for (const Mode& mode : send_modes) {
    if (mode.name == name) return mode.mode;
  }
  throw input_error(unknown_name("transport", name, send_mode_names()));
}

std::optional<std::string> find_deadlock(const Schedule& schedule, SendMode mode,
                                         const EagerSends& eager) {
  return UntimedTasks(schedule, mode, eager).run();
}

void throw_deadlock(const Schedule& schedule, SendMode mode, const EagerSends& eager) {
  const auto cycle = find_deadlock(schedule, mode, eager);
  throw input_error(fmt::format("{}: {}", schedule.name, cycle.value_or("makes no progress")));
}

}  // namespace pipesim
