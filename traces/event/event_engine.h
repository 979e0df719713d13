// A discrete-event engine: tasks on streams, signals, rendezvous, and flows
// over shared links. It does not know what the tasks mean.
//
// It runs an EventPlan, which says which tasks are on which streams and wait for
// what. The model says what a task does when it starts: finish_at() a time, or
// send() bytes over a route. The task holds its streams until then.
//
// Time is a whole number of nanoseconds; events at one time are ordered by
// sequence: first all ends, in the order in which they were set (flows
// that end together, in the order of continuous time), then all starts,
// in the order in which tasks became ready; tasks of no length end as they
// start; tasks ready then begin another round. Nothing depends on addresses
// or hashing.
//
// The engine owns the plan and the queue; the model, which outlives it, owns the
// rest. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "traces/base/budget.h"
#include "traces/base/prefetch.h"
#include "traces/event/event_plan.h"
#include "traces/event/event_queue.h"

namespace pipesim {

// A Model has
//   void start(TaskId);                            calls finish_at() or send()
//   void finish(TaskId);                           calls signal() for those it releases
//   bool is_current(TaskId, std::uint32_t version) for ends that have been moved
//   std::array<StreamId, 2> streams_of(TaskId) const
//   std::int64_t latency_of(TaskId) const          of a flow, after its last byte
template <typename Model>
class EventEngine {
 public:
  // `budget`: null, or it outlives the engine.
  EventEngine(Model& model, EventPlan plan, const Budget* budget = nullptr)
      : model_(model), plan_(std::move(plan)), budget_(budget), streams_(plan_.streams.size()) {}

  // Runs until nothing more can happen. False if tasks are left over: they wait for each other.
  // Throws where the budget is over.
  bool run() {
    for (StreamId id = 0; id < streams_.size(); ++id) show_next(id);
    for (;;) {
      std::swap(starting_, ready_);
      for (const TaskId task : starting_) start(task);
      starting_.clear();
      if (!ready_.empty()) continue;
      if (queue_.empty()) break;
      queue_.take_instant(instant_);
      constexpr std::uint32_t instants_a_look = 1024;
      if (budget_ != nullptr && ++instants_ % instants_a_look == 0) budget_->check();
      for (const Event& event : instant_) handle(event);
    }
    for (StreamId id = 0; id < streams_.size(); ++id) {
      if (streams_[id].unfinished > 0 || streams_[id].next < plan_.streams[id].size()) return false;
    }
    return true;
  }

  std::int64_t now_ns() const { return queue_.now_ns(); }

  // After a run that left tasks over: the group at the head of a stream, which may be done in part
  // (then all of it waits for the rest); empty for a stream that is through.
  std::span<const EventPlan::Entry> head_of(StreamId id) const {
    const auto& entries = plan_.streams[id];
    if (streams_[id].unfinished == 0) return {};
    const std::size_t end = streams_[id].next;
    std::size_t first = end - 1;
    while (first > 0 && entries[first - 1].with_next()) --first;
    return {entries.data() + first, end - first};
  }
  // Whether all that a task waits for has come; then it has run, too, unless it still takes time.
  bool is_released(TaskId task) const { return plan_.waits[task] == 0; }

  // Sets the end of the task that starts now. An end is moved by setting it again under a version
  // other than 0; the model says which of several versions counts.
  void finish_at(TaskId task, std::int64_t time_ns, std::uint32_t version = 0) {
    if (time_ns == now_ns() && task == starting_now_) {
      ends_at_once_ = true;
    } else {
      queue_.push(time_ns, {task << 1, version});
    }
  }

  // The task that starts now ends when `bytes` have crossed the route and the
  // task's latency has passed. With no bytes or no route only the latency counts.
  void send(TaskId task, RouteId route, std::int64_t bytes) {
    if (bytes == 0 || route == no_route) {
      finish_at(task, now_ns() + model_.latency_of(task));
      return;
    }
    plan_.network.start(task, route, bytes, now_ns());
    take_alarms();
  }

  void signal(TaskId task) { arrive(task); }

 private:
  struct Event {
    std::uint32_t what;  // task << 1, or route << 1 | 1
    std::uint32_t version;

    bool is_alarm() const { return (what & 1U) != 0; }
    std::uint32_t id() const { return what >> 1; }
  };
  struct Stream {
    std::uint32_t next = 0;        // the first task after the head group
    std::uint32_t unfinished = 0;  // of the head group
  };

  void arrive(TaskId task) {
    assert(plan_.waits[task] > 0);
    if (--plan_.waits[task] == 0) ready_.push_back(task);
    prefetch_ahead(&plan_.waits[task], 64);
  }

  void show_next(StreamId id) {
    Stream& stream = streams_[id];
    const auto& entries = plan_.streams[id];
    while (stream.next < entries.size()) {
      const EventPlan::Entry entry = entries[stream.next++];
      ++stream.unfinished;
      arrive(entry.task());
      if (!entry.with_next()) break;
    }
    // Other streams come first now; by then these lines would be gone.
    prefetch_ahead(entries.data() + stream.next, 16);
  }

  void take_alarms() {
    auto& alarms = plan_.network.alarms();
    for (const auto& alarm : alarms) {
      queue_.push(alarm.time_ns, {alarm.route << 1 | 1U, alarm.version});
    }
    alarms.clear();
  }

  void start(TaskId task) {
    starting_now_ = task;
    ends_at_once_ = false;
    assert(stands_at_heads(task) && "a task left its place in a stream");
    model_.start(task);
    starting_now_ = no_task;
    if (ends_at_once_) end(task);
  }

  // The order of streams, for assertions.
  bool stands_at_heads(TaskId task) const {
    return std::ranges::all_of(model_.streams_of(task), [&](StreamId id) {
      if (id == no_stream) return true;
      const auto head = head_of(id);
      return std::ranges::find(head, task, &EventPlan::Entry::task) != head.end();
    });
  }

  void handle(const Event& event) {
    if (event.is_alarm()) {
      sent_.clear();
      plan_.network.wake({now_ns(), event.id(), event.version}, sent_);
      for (const TaskId task : sent_) {
        const std::int64_t latency = model_.latency_of(task);
        if (latency == 0) {
          end(task);
        } else {
          finish_at(task, now_ns() + latency);
        }
      }
      take_alarms();
    } else if (event.version == 0 || model_.is_current(event.id(), event.version)) {
      end(event.id());
    }
  }

  void end(TaskId task) {
    model_.finish(task);
    for (const StreamId id : model_.streams_of(task)) {
      if (id == no_stream) continue;
      Stream& stream = streams_[id];
      assert(stream.unfinished > 0);
      if (--stream.unfinished == 0) show_next(id);
    }
  }

  Model& model_;
  EventPlan plan_;
  const Budget* budget_;
  std::uint32_t instants_ = 0;
  std::vector<Stream> streams_;
  std::vector<TaskId> ready_;
  std::vector<TaskId> starting_;
  TaskId starting_now_ = no_task;
  bool ends_at_once_ = false;  // the one that starts now
  std::vector<TaskId> sent_;
  std::vector<Event> instant_;
  EventQueue<Event> queue_;
};

}  // namespace pipesim
