// A discrete-event engine: tasks on streams, signals, rendezvous, and flows
// over shared links. It knows nothing of what the tasks mean.
//
// - A stream runs its tasks in order; some may be grouped with the next one:
//   a group's tasks run side by side, and the next group follows the last.
// - A task starts once it stands at the head of every stream that it is on
//   (none, one, or two: a rendezvous) and all signals that it needs have come.
// - The model says what a task does when it starts: finish_at() a time, or
//   send() bytes over a route. It holds its streams until then.
//
// Time is a whole number of nanoseconds; what happens at one time is ordered by
// sequence: first all that ends, in the order in which its end was set, then
// all that can start, in the order in which it became ready, what takes no time
// ending as it starts; what is ready then begins another turn. Nothing depends
// on addresses or hashing.
//
// The engine owns streams, the count of what each task waits for, the links
// and the queue; the model, which outlives it, owns the rest. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/engine/event/event_queue.h"
#include "sim/engine/event/flow_network.h"
#include "traces/base/large_vector.h"
#include "traces/base/prefetch.h"

namespace pipesim {

using TaskId = std::uint32_t;  // below 2^31
using StreamId = std::uint32_t;
inline constexpr StreamId no_stream = std::numeric_limits<StreamId>::max();
inline constexpr RouteId no_route = std::numeric_limits<RouteId>::max();

// A Model has
//   void start(TaskId);                            calls finish_at() or send()
//   void finish(TaskId);                           calls signal() for those it lets go on
//   bool is_current(TaskId, std::uint32_t version) for ends that have been moved
//   std::array<StreamId, 2> streams_of(TaskId) const
//   std::int64_t latency_of(TaskId) const          of a flow, after its last byte
template <typename Model>
class EventEngine {
 public:
  // Tasks are numbered 0..tasks-1.
  EventEngine(Model& model, std::size_t streams, std::size_t tasks)
      : model_(model), streams_(streams), waits_(tasks) {}

  // ---- Description, before run()

  LinkId add_link(std::int64_t bytes_per_second) { return network_.add_link(bytes_per_second); }
  RouteId add_route(const std::vector<LinkId>& links) { return network_.add_route(links); }
  void reserve(StreamId stream, std::size_t tasks) { streams_[stream].tasks.reserve(tasks); }
  // Puts a task on a stream, behind those there; `with_next`: in one group
  // with the task that follows.
  void append(StreamId stream, TaskId task, bool with_next = false) {
    streams_[stream].tasks.push_back(task << 1 | (with_next ? 1U : 0U));
    ++waits_[task];
  }
  // Makes a task wait for one more signal.
  void need_signal(TaskId task) { ++waits_[task]; }

  // ---- Run

  // Runs until nothing can happen any more. False where tasks are left over:
  // they wait for each other.
  bool run() {
    for (Stream& stream : streams_) show_next(stream);
    for (;;) {
      std::swap(starting_, ready_);
      for (const TaskId task : starting_) start(task);
      starting_.clear();
      if (!ready_.empty()) continue;
      if (queue_.empty()) break;
      queue_.take_instant(instant_);
      for (const Event& event : instant_) handle(event);
    }
    return std::ranges::all_of(streams_, [](const Stream& stream) {
      return stream.unfinished == 0 && stream.next == stream.tasks.size();
    });
  }

  std::int64_t now_ns() const { return queue_.now_ns(); }

  // The task that starts now ends then. An end may be moved by setting it
  // again under another version than 0: of several, the model says which one
  // counts.
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
    network_.start(task, route, bytes, now_ns());
    take_alarms();
  }

  void signal(TaskId task) { arrive(task); }

  const FlowNetwork& network() const { return network_; }

 private:
  struct Event {
    std::uint32_t what;  // task << 1, or route << 1 | 1
    std::uint32_t version;

    bool is_alarm() const { return (what & 1U) != 0; }
    std::uint32_t id() const { return what >> 1; }
  };
  struct Stream {
    std::vector<std::uint32_t> tasks;  // task << 1 | with_next
    std::uint32_t next = 0;            // the first task after the head group
    std::uint32_t unfinished = 0;      // of the head group
  };

  void arrive(TaskId task) {
    assert(waits_[task] > 0);
    if (--waits_[task] == 0) ready_.push_back(task);
    prefetch_ahead(&waits_[task], 64);
  }

  void show_next(Stream& stream) {
    const auto size = static_cast<std::uint32_t>(stream.tasks.size());
    while (stream.next < size) {
      const std::uint32_t entry = stream.tasks[stream.next++];
      ++stream.unfinished;
      arrive(entry >> 1);
      if ((entry & 1U) == 0) break;
    }
    // Other streams come first now; by then these lines would be gone.
    prefetch_ahead(stream.tasks.data() + stream.next, 16);
  }

  void take_alarms() {
    auto& alarms = network_.alarms();
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
      const Stream& stream = streams_[id];
      std::uint32_t first = stream.next - 1;
      while (first > 0 && (stream.tasks[first - 1] & 1U) != 0) --first;
      return std::any_of(stream.tasks.begin() + first, stream.tasks.begin() + stream.next,
                         [&](std::uint32_t entry) { return entry >> 1 == task; });
    });
  }

  void handle(const Event& event) {
    if (event.is_alarm()) {
      sent_.clear();
      network_.wake({now_ns(), event.id(), event.version}, sent_);
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
      if (--stream.unfinished == 0) show_next(stream);
    }
  }

  static constexpr TaskId no_task = std::numeric_limits<TaskId>::max();

  Model& model_;
  std::vector<Stream> streams_;
  LargeVector<std::uint8_t> waits_;  // heads to come to and signals to get
  std::vector<TaskId> ready_;
  std::vector<TaskId> starting_;
  TaskId starting_now_ = no_task;
  bool ends_at_once_ = false;  // the one that starts now
  std::vector<TaskId> sent_;
  std::vector<Event> instant_;
  EventQueue<Event> queue_;
  FlowNetwork network_;
};

}  // namespace pipesim
