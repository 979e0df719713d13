// The streams of one device, and the instants on them.
//
// Operators run on one stream; copies to and from the host's memory on one
// each. Marks are events, ordered and timed; their times become the host's by
// a line through two instants seen by both clocks: one before them, one after.
// One device, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/gpu/gpu.h"

namespace pipesim::exec {

class Stream {
 public:
  // On the selected GPU.
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  gpuStream_t get() const { return stream_; }
  void finish() const;

 private:
  gpuStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  gpuEvent_t get() const { return event_; }

 private:
  gpuEvent_t event_ = nullptr;
};

class Marks {
 public:
  // `stream` must outlive this: clocks are compared on it.
  explicit Marks(const Stream& stream);

  // A mark that passes once everything now on that stream has run.
  Mark set(const Stream& stream);
  bool has_passed(Mark mark) const;
  // Later work on the stream runs after it.
  void follow(const Stream& stream, Mark mark) const;
  // By CLOCK_MONOTONIC; waits for everything on the stream of the clocks.
  std::int64_t time_of(Mark mark);
  // No marked work may be running any more.
  void forget();

 private:
  // An instant by both clocks.
  struct Sight {
    Event event;
    std::int64_t host_ns = 0;
  };
  void look(Sight& sight) const;
  gpuEvent_t event_of(Mark mark) const { return events_[static_cast<std::size_t>(mark)].get(); }

  const Stream& stream_;
  std::vector<Event> events_;
  std::size_t used_ = 0;  // of those events
  Sight before_;
  Sight after_;
  bool seen_after_ = false;  // since the last mark
};

}  // namespace pipesim::exec
