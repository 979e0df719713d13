#include "sim/engine/event_evaluation.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/engine/event/event_engine.h"
#include "sim/engine/pace.h"
#include "sim/engine/task_table.h"
#include "sim/schedule/deadlock.h"
#include "traces/base/large_vector.h"
#include "traces/base/prefetch.h"

namespace pipesim {
namespace {

using Work = TaskTable::Work;
using Row = TaskTable::Row;

Kind send_kind(Work transfer) {
  return transfer == Work::transfer_forward ? Kind::SEND_F : Kind::SEND_B;
}

// The engine's model: what the tasks of a schedule do when they start and end.
class EventEvaluation {
 public:
  EventEvaluation(const Schedule& schedule, const Costs& costs, const Transfers& transfers,
                  const SpanSink& sink)
      : schedule_(schedule),
        costs_(costs),
        transfers_(transfers),
        sink_(sink),
        footprints_(costs.footprints(schedule.placement)),
        table_(make_task_table(schedule, costs, transfers)),
        engine_(*this, table_.streams,
                table_.size() + static_cast<std::size_t>(schedule.ranks()) * 2 +
                    count_reductions(schedule)),
        accounts_(static_cast<std::size_t>(schedule.ranks())),
        starts_ns_(accounts_.size()),
        tails_(table_.streams),
        inputs_(static_cast<std::size_t>(table_.stages) << table_.shift),
        is_whole_(inputs_.size()),
        paces_(accounts_.size(), Pace(costs.compute_slowdown_ppm)) {
    for (const std::int64_t rate : table_.links) engine_.add_link(rate);
    for (const auto& links : table_.routes) routes_.push_back(engine_.add_route(links));
    reserve_streams();
    need_signals();
    for (int rank = 0; rank < schedule.ranks(); ++rank) fill_streams(rank);
  }

  Metrics run() {
    if (!engine_.run()) {
      throw_deadlock(schedule_, transport_of(transfers_.mode),
                     [this](const Action& send) { return is_eager(send, costs_, transfers_); });
    }
    return summarise(accounts_);
  }

  // ---- What the engine asks

  void start(TaskId task) {
    if (task >= table_.size()) {
      const Closing& closing = closing_[task - table_.size()];
      starts_ns_[static_cast<std::size_t>(closing.rank)] = engine_.now_ns();
      engine_.finish_at(task, engine_.now_ns() + closing.duration_ns);
      return;
    }
    const Row& row = table_.row(task);
    switch (row.work) {
      case Work::forward:
      case Work::backward:
      case Work::weight: start_compute(task, row); break;
      case Work::transfer_forward:
      case Work::transfer_backward: start_transfer(task, row); break;
      case Work::send_forward:
      case Work::send_backward:
        leave(task, row);
        engine_.finish_at(task, engine_.now_ns());
        break;
      case Work::receive_forward:
      case Work::receive_backward: engine_.finish_at(task, engine_.now_ns()); break;
    }
  }

  void finish(TaskId task) {
    if (task >= table_.size()) {
      finish_closing(closing_[task - table_.size()]);
      return;
    }
    const Row& row = table_.row(task);
    switch (row.work) {
      case Work::forward:
      case Work::backward:
      case Work::weight: finish_compute(task, row); return;
      case Work::transfer_forward:
      case Work::transfer_backward: finish_transfer(task, row); break;
      default: finish_end(task, row); break;
    }
    signal_successor(task, row);
  }

  std::array<StreamId, 2> streams_of(TaskId task) const {
    if (task < table_.size()) return table_.row(task).streams;
    return {static_cast<StreamId>(closing_[task - table_.size()].rank), no_stream};
  }
  std::int64_t latency_of(TaskId task) const { return table_.row(task).latency_ns; }
  bool is_current(TaskId task, std::uint32_t version) const {
    return paces_[static_cast<std::size_t>(table_.row(task).rank)].version() == version;
  }

 private:
  // The end of what ran last on a stream, and the path to it.
  struct Tail {
    std::int64_t end_ns = 0;
    PathTimes path;
  };

  // The input of (stage, microbatch) from another rank: of its F first, then,
  // F having run, of its backward.
  struct Input {
    std::int64_t sent_ns = 0;  // before that: when it was ready to be sent
    std::int64_t arrival_ns = 0;
    PathTimes path;  // to the instant at which it can be used; before: to sent_ns
  };

  // A task outside the table: a reduction or an optimizer step.
  struct Closing {
    Action action;
    int rank;
    std::int64_t duration_ns;
  };

  // The two tasks of an overlapped cell; the engine knows the forward's alone.
  struct Joined {
    TaskId forward;
    TaskId backward;
    const Input* last_input = nullptr;  // that could be used, of either
    std::int64_t last_ns = -1;          // and when
  };

  static std::size_t count_reductions(const Schedule& schedule) {
    return static_cast<std::size_t>(
        std::ranges::count(schedule.actions.all(), Kind::REDUCE_GRAD, &Action::kind));
  }

  // ---- Description

  // A row stands on its streams with all its microbatches, or with none.
  void reserve_streams() {
    std::vector<std::size_t> rows(table_.streams);
    for (const Row& row : table_.rows) {
      for (const StreamId stream : row.streams) {
        if (stream != no_stream) ++rows[stream];
      }
    }
    for (std::size_t stream = 0; stream < rows.size(); ++stream) {
      engine_.reserve(static_cast<StreamId>(stream),
                      rows[stream] * static_cast<std::size_t>(schedule_.microbatches));
    }
  }

  void need_signals() {
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      if (!table_.rows[row].needs_signal) continue;
      for (int mb = 0; mb < schedule_.microbatches; ++mb) {
        engine_.need_signal(static_cast<TaskId>(row << table_.shift) + static_cast<TaskId>(mb));
      }
    }
  }

  static Work work_of(Kind kind) {
    switch (kind) {
      case Kind::F: return Work::forward;
      case Kind::W: return Work::weight;
      default: return Work::backward;
    }
  }
  TaskId task_of(const Action& compute) const {
    return table_.task(work_of(compute.kind), compute.stage, compute.microbatch);
  }

  void fill_streams(int rank) {
    const auto list = schedule_.actions[rank];
    const auto compute = static_cast<StreamId>(rank);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action& action = list[i];
      if (is_compute(action.kind)) {
        engine_.append(compute, task_of(action));
        note(action);
        if (!action.joined) continue;
        note(list[++i]);
        join(action, list[i]);
      } else if (is_transfer(action.kind)) {
        append_transfer(action);
      } else if (action.kind == Kind::REDUCE_GRAD && !costs_.reduce_gradients_ns.empty()) {
        add_closing(rank, action, 0);
      }
    }
    close(rank);
  }

  void note(const Action& action) {
    if (action.kind == Kind::B) is_whole_[slot(action.stage, action.microbatch)] = true;
  }

  // Both actions of a cell are one task, the forward's; it needs what either
  // needs.
  void join(const Action& first, const Action& second) {
    if (joined_.empty()) {
      joined_at_forward_.resize(inputs_.size());
      joined_at_backward_.resize(inputs_.size());
    }
    joined_.push_back({task_of(first), task_of(second)});
    joined_at_forward_[slot(first.stage, first.microbatch)] = joined_.size();
    joined_at_backward_[slot(second.stage, second.microbatch)] = joined_.size();
    if (table_.row(task_of(second)).needs_signal) engine_.need_signal(task_of(first));
  }

  // An end of a transfer: of the transfer itself where its ends meet, else of
  // a SEND or RECV for itself; under async a RECV delays nothing.
  void append_transfer(const Action& action) {
    const Action send = is_send(action.kind) ? action : peer_of(action);
    const bool forward = send.kind == Kind::SEND_F;
    const bool batched =
        action.joined && (transfers_.mode == P2p::blocking || transfers_.mode == P2p::fifo);
    const TaskId meeting = table_.task(forward ? Work::transfer_forward : Work::transfer_backward,
                                       send.stage, send.microbatch);
    const auto& streams = table_.row(meeting).streams;
    if (streams[0] != no_stream) {
      engine_.append(streams[is_send(action.kind) ? 0 : 1], meeting, batched);
      return;
    }
    Work work = forward ? Work::send_forward : Work::send_backward;
    if (is_receive(action.kind)) work = forward ? Work::receive_forward : Work::receive_backward;
    const TaskId end = table_.task(work, action.stage, action.microbatch);
    const StreamId stream = table_.row(end).streams[0];
    if (stream != no_stream) engine_.append(stream, end, batched);
  }

  TaskId add_closing(int rank, const Action& action, std::int64_t duration_ns) {
    const auto task = static_cast<TaskId>(table_.size() + closing_.size());
    closing_.push_back({action, rank, duration_ns});
    engine_.append(static_cast<StreamId>(rank), task);
    return task;
  }

  // A rank's reduction time is shared by its REDUCE_GRAD actions, the last one
  // taking what the division left; without any it stands at the end.
  void close(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const std::int32_t stage = schedule_.placement.stages_of(rank).front();
    if (!costs_.reduce_gradients_ns.empty()) {
      if (closing_.empty() || closing_.back().rank != rank) {
        add_closing(rank, make_action(stage, Kind::REDUCE_GRAD), 0);
      }
      std::int64_t left = costs_.reduce_gradients_ns[at];
      const auto first = std::ranges::find(closing_, rank, &Closing::rank);
      const std::int64_t share = left / (closing_.end() - first);
      for (auto closing = first; closing != closing_.end(); ++closing) {
        closing->duration_ns = closing + 1 == closing_.end() ? left : share;
        left -= share;
      }
    }
    if (!costs_.optimizer_ns.empty()) {
      add_closing(rank, make_action(stage, Kind::OPTIMIZER), costs_.optimizer_ns[at]);
    }
  }

  // ---- Compute

  std::size_t slot(int stage, int microbatch) const {
    return (static_cast<std::size_t>(stage) << table_.shift) + static_cast<std::size_t>(microbatch);
  }

  Action action_of(TaskId compute) const {
    const Row& row = table_.row(compute);
    const int mb = table_.microbatch(compute);
    switch (row.work) {
      case Work::forward: return make_action(row.stage, Kind::F, mb);
      case Work::weight: return make_action(row.stage, Kind::W, mb);
      default:
        return make_action(row.stage, is_whole_[slot(row.stage, mb)] ? Kind::B : Kind::I, mb);
    }
  }
  std::int64_t duration_of(const Action& action) const {
    const Row& row = table_.rows[table_.row_of(work_of(action.kind), action.stage)];
    return row.duration_ns[action.kind == Kind::B ? 1 : 0];
  }

  // The actions of a compute task: one, or the two of a joined cell.
  struct Cell {
    std::array<Action, 2> actions;
    std::size_t size;
    std::span<const Action> all() const { return {actions.data(), size}; }
  };
  Cell cell_of(TaskId task) const {
    Cell cell{{action_of(task), {}}, 1};
    if (const Joined* joined = joined_with(task)) {
      cell.actions[0].joined = true;
      cell.actions[1] = action_of(joined->backward);
      cell.size = 2;
    }
    return cell;
  }

  // The overlapped cell that a task is in, if any.
  const Joined* joined_with(TaskId task) const {
    if (joined_.empty()) return nullptr;
    const Row& row = table_.row(task);
    std::size_t at = 0;
    const std::size_t own = slot(row.stage, table_.microbatch(task));
    if (row.work == Work::forward) at = joined_at_forward_[own];
    if (row.work == Work::backward) at = joined_at_backward_[own];
    return at == 0 ? nullptr : &joined_[at - 1];
  }
  Joined* joined_with(TaskId task) {
    return const_cast<Joined*>(std::as_const(*this).joined_with(task));
  }

  RankAccount& account(int rank) { return accounts_[static_cast<std::size_t>(rank)]; }
  const StageFootprint& footprint(int stage) const {
    return footprints_[static_cast<std::size_t>(stage)];
  }

  void start_compute(TaskId task, const Row& row) {
    const std::int64_t now = engine_.now_ns();
    const Cell cell = cell_of(task);
    std::int64_t duration = 0;
    for (const Action& action : cell.all()) {
      duration += duration_of(action);
      account(row.rank).memory.start(action, footprint(action.stage), now);
    }
    if (cell.size == 2) {
      duration = costs_.stages[static_cast<std::size_t>(row.stage)].overlap_ns.value_or(duration);
    }
    starts_ns_[static_cast<std::size_t>(row.rank)] = now;
    if (costs_.compute_slowdown_ppm == 0) {
      engine_.finish_at(task, now + duration);
    } else {
      Pace& pace = paces_[static_cast<std::size_t>(row.rank)];
      pace.start(task, duration, now);
      engine_.finish_at(task, pace.end_ns(), pace.version());
    }
  }

  void finish_compute(TaskId task, const Row& row) {
    const std::int64_t now = engine_.now_ns();
    if (costs_.compute_slowdown_ppm > 0) paces_[static_cast<std::size_t>(row.rank)].finish();
    const Cell cell = cell_of(task);
    const Input* awaited = nullptr;  // the input of the cell that came last
    for (const Action& action : cell.all()) {
      if (const Input* input = input_of(action)) {
        if (awaited == nullptr || input->arrival_ns > awaited->arrival_ns) awaited = input;
      }
    }
    // The same by use: a RECV may have held an early arrival back.
    const Joined* joined = joined_with(task);
    occupy(row.rank, now, awaited, joined != nullptr ? joined->last_input : awaited, Kind::F);
    RankAccount& own = account(row.rank);
    for (const Action& action : cell.all()) {
      own.pass(action.kind);
      own.memory.end(action, footprint(action.stage), now);
      if (sink_) [[unlikely]]
        emit_compute(action, row.rank, now);
    }
    for (const Action& action : cell.all()) {
      const TaskId part = task_of(action);
      const Row& part_row = table_.row(part);
      if (part_row.successor < 0) continue;
      if (part_row.consumer >= 0) {
        inputs_[slot(part_row.consumer, action.microbatch)] = {now, 0, own.path};
      }
      signal_successor(part, part_row);
    }
  }

  const Input* input_of(const Action& action) const {
    const Row& row = table_.rows[table_.row_of(work_of(action.kind), action.stage)];
    return row.has_input ? &inputs_[slot(action.stage, action.microbatch)] : nullptr;
  }

  // Accounts for what the rank did since its start until now. `awaited`: the
  // input that arrived last; `last`: the one that could be used last. The path
  // to the start leads along the rank's stream, or else along that.
  void occupy(int rank, std::int64_t now, const Input* awaited, const Input* last, Kind kind) {
    RankAccount& own = account(rank);
    Tail& tail = tails_[static_cast<std::size_t>(rank)];
    const std::int64_t start = starts_ns_[static_cast<std::size_t>(rank)];
    if (last != nullptr && tail.end_ns != start) tail.path = last->path;
    const auto outcome = own.occupy({start, now, awaited != nullptr ? awaited->sent_ns : 0,
                                     awaited != nullptr ? awaited->arrival_ns : 0});
    if (is_compute(kind)) tail.path.compute_ns += outcome.fresh_ns;
    tail.end_ns = now;
    own.path = tail.path;
  }

  void finish_closing(const Closing& closing) {
    const std::int64_t now = engine_.now_ns();
    occupy(closing.rank, now, nullptr, nullptr, closing.action.kind);
    if (sink_) [[unlikely]] {
      sink_({closing.action, closing.rank, 0, starts_ns_[static_cast<std::size_t>(closing.rank)],
             now, 0, 0, 0});
    }
  }

  [[gnu::noinline, gnu::cold]] void emit_compute(const Action& action, int rank, std::int64_t now) {
    Span span{action, rank, 0, starts_ns_[static_cast<std::size_t>(rank)], now, 0, 0, 0};
    if (const Input* input = input_of(action)) {
      span.input_sent_ns = input->sent_ns;
      span.input_arrival_ns = input->arrival_ns;
    }
    sink_(span);
  }

  // ---- Transfers

  // Notes that a result leaves now, and the path to that: its producer's where
  // that ended now, else that of a stream that held it up.
  void leave(TaskId task, const Row& row) {
    const std::int64_t now = engine_.now_ns();
    Input& input = inputs_[slot(row.consumer, table_.microbatch(task))];
    if (!row.needs_signal || input.sent_ns != now) {
      input.path = {};
      for (const StreamId stream : row.streams) {
        if (stream == no_stream || tails_[stream].end_ns != now) continue;
        input.path = tails_[stream].path;
        break;
      }
    }
    input.sent_ns = now;
    input.arrival_ns = 0;
  }

  void start_transfer(TaskId task, const Row& row) {
    const std::int64_t now = engine_.now_ns();
    leave(task, row);
    if (row.bytes > 0) {
      const Action receive =
          peer_of(make_action(row.stage, send_kind(row.work), table_.microbatch(task)));
      account(row.to_rank).memory.start(receive, footprint(receive.stage), now);
    }
    change_pace(row, true);
    engine_.send(task, row.route < 0 ? no_route : routes_[static_cast<std::size_t>(row.route)],
                 row.bytes);
  }

  void finish_transfer(TaskId task, const Row& row) {
    const std::int64_t now = engine_.now_ns();
    const int mb = table_.microbatch(task);
    Input& input = inputs_[slot(row.consumer, mb)];
    prefetch_ahead(&input, 4);
    input.arrival_ns = now;
    input.path.p2p_ns += now - input.sent_ns;
    for (const StreamId stream : row.streams) {
      if (stream != no_stream) tails_[stream] = {now, input.path};
    }
    const Action send = make_action(row.stage, send_kind(row.work), mb);
    if (row.bytes > 0) account(row.rank).memory.end(send, footprint(row.stage), now);
    change_pace(row, false);
    if (sink_) [[unlikely]] {
      sink_({send, row.rank, 0, input.sent_ns, now, 0, 0, row.bytes});
      sink_({peer_of(send), row.to_rank, 0, input.sent_ns, now, 0, 0, row.bytes});
    }
  }

  // The SEND or RECV of a transfer that does not hold it.
  void finish_end(TaskId task, const Row& row) {
    const std::int64_t now = engine_.now_ns();
    Input& input = inputs_[slot(row.consumer, table_.microbatch(task))];
    Tail& tail = tails_[row.streams[0]];
    // Where the stream came to a RECV after the arrival, the stream is what
    // its consumer waited for.
    const bool is_receive = row.work >= Work::receive_forward;
    if (is_receive && tail.end_ns == now) input.path = tail.path;
    tail = {now, input.path};
  }

  void signal_successor(TaskId task, const Row& row) {
    if (row.successor < 0) return;
    const auto to = static_cast<std::size_t>(row.successor);
    const int mb = table_.microbatch(task);
    auto next_task = static_cast<TaskId>(to << table_.shift) + static_cast<TaskId>(mb);
    if (Joined* joined = joined_with(next_task)) [[unlikely]] {
      // Of two at one instant, the forward's counts.
      const bool later = joined->last_ns < engine_.now_ns() || next_task == joined->forward;
      if (row.work >= Work::transfer_forward && later) {
        joined->last_input = &inputs_[slot(row.consumer, mb)];
        joined->last_ns = engine_.now_ns();
      }
      next_task = joined->forward;
    }
    engine_.signal(next_task);
  }

  // A transfer that begins or ends at a rank may slow its compute down or let
  // it go on faster.
  void change_pace(const Row& row, bool begins) {
    if (costs_.compute_slowdown_ppm == 0) return;
    for (const int rank : {row.rank, row.to_rank}) {
      Pace& pace = paces_[static_cast<std::size_t>(rank)];
      if (!pace.change(begins ? 1 : -1, engine_.now_ns())) continue;
      engine_.finish_at(pace.task(), pace.end_ns(), pace.version());
    }
  }

  const Schedule& schedule_;
  const Costs& costs_;
  Transfers transfers_;
  const SpanSink& sink_;
  std::vector<StageFootprint> footprints_;
  TaskTable table_;
  EventEngine<EventEvaluation> engine_;
  std::vector<RouteId> routes_;  // the engine's, of the table's
  std::vector<RankAccount> accounts_;
  std::vector<std::int64_t> starts_ns_;  // of what each rank does
  std::vector<Tail> tails_;              // by stream; a rank's compute stream has its number
  LargeVector<Input> inputs_;            // by stage and microbatch
  LargeVector<std::uint8_t> is_whole_;   // by stage and microbatch: its backward is a B
  std::vector<Pace> paces_;              // by rank
  std::vector<Closing> closing_;         // numbered from the table's size on
  std::vector<Joined> joined_;
  // By stage and microbatch, where there are joined cells: an index in
  // joined_ plus one, or 0.
  LargeVector<std::size_t> joined_at_forward_;
  LargeVector<std::size_t> joined_at_backward_;
};

}  // namespace

Metrics evaluate_by_events(const Schedule& schedule, const Costs& costs, const Transfers& transfers,
                           const SpanSink& sink) {
  return EventEvaluation(schedule, costs, transfers, sink).run();
}

}  // namespace pipesim
