// The input of an event engine: tasks on streams, what they wait for, links.
//
// - A stream runs its tasks in order; some may be grouped with the next one:
//   a group's tasks run side by side, and the next group follows the last.
// - A task starts once it is at the head of every stream that it is on
//   (none, one, or two: a rendezvous) and all signals that it needs have come.
//
// Built by one thread and handed over to the engine.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/event/flow_network.h"

namespace pipesim {

using TaskId = std::uint32_t;  // below 2^31
using StreamId = std::uint32_t;
inline constexpr TaskId no_task = std::numeric_limits<TaskId>::max();
inline constexpr StreamId no_stream = std::numeric_limits<StreamId>::max();
inline constexpr RouteId no_route = std::numeric_limits<RouteId>::max();

struct EventPlan {
  // A task, and whether it is in one group with the next.
  struct Entry {
    std::uint32_t bits;
    TaskId task() const { return bits >> 1; }
    bool with_next() const { return (bits & 1U) != 0; }
  };

  std::vector<std::vector<Entry>> streams;
  // Of each task: the heads that it must come to, and the signals it needs.
  LargeVector<std::uint8_t> waits;
  FlowNetwork network;

  // Tasks are numbered 0..tasks-1; one that waits for nothing never runs.
  void resize(std::size_t stream_count, std::size_t tasks) {
    streams.resize(stream_count);
    waits.resize(tasks);
  }
  void reserve(StreamId stream, std::size_t tasks) { streams[stream].reserve(tasks); }
  // Appends a task to a stream.
  void append(StreamId stream, TaskId task, bool with_next = false) {
    streams[stream].push_back({task << 1 | (with_next ? 1U : 0U)});
    ++waits[task];
  }
  // Makes a task wait for one more signal.
  void need_signal(TaskId task) { ++waits[task]; }
};

}  // namespace pipesim
