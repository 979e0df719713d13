// A rank's memory, metered in the order of time though told in another.
//
// Compute is told in the order of the rank's list; transfers in nearly that of time, each at any
// distance ahead of compute or behind it. Events wait here until nothing earlier can come. Plain
// values; one rank, one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "traces/memory.h"
#include "traces/metrics.h"

namespace pipesim {

class MergedMemory {
 public:
  // A start or end of an action.
  struct Event {
    std::int64_t time_ns;
    Action action;
    bool ends;

    bool comes_before(const Event& other) const {
      return time_ns != other.time_ns ? time_ns < other.time_ns : ends && !other.ends;
    }
  };

  void add_compute(const Event& event) { compute_.events.push_back(event); }
  void add_transfer(const Event& event) {
    auto& events = transfers_.events;
    auto at = events.end();
    const auto first = events.begin() + static_cast<std::ptrdiff_t>(transfers_.next);
    while (at != first && event.comes_before(*(at - 1))) --at;
    events.insert(at, event);
  }
  // The compute told from here on belongs to another iteration. Messages that begin from then on
  // don't count for the one before.
  void end_iteration(std::int64_t next_start_ns) { add_compute({next_start_ns, Action(), true}); }

  std::size_t waiting() const { return compute_.size() + transfers_.size(); }

  // Nothing before this time will be told any more.
  void settle(std::int64_t before_ns, const std::vector<StageFootprint>& footprints) {
    for (;;) {
      const Event* compute = compute_.first();
      const Event* transfer = transfers_.first();
      // The next iteration's messages begin after its first instant has.
      const bool transfers_next =
          transfer != nullptr && (compute == nullptr || transfer->time_ns < compute->time_ns ||
                                  (transfer->time_ns == compute->time_ns && transfer->ends));
      if (compute == nullptr && transfer == nullptr) break;
      const Event& event = transfers_next ? *transfer : *compute;
      if (event.time_ns >= before_ns) break;
      ++(transfers_next ? transfers_ : compute_).next;
      if (event.action.kind == Kind::IDLE) {
        if (!has_first_) first_ = meter_;
        has_first_ = true;
        continue;
      }
      const StageFootprint& footprint = footprints[static_cast<std::size_t>(event.action.stage)];
      if (event.ends) {
        meter_.end(event.action, footprint, event.time_ns);
      } else {
        meter_.start(event.action, footprint, event.time_ns);
      }
    }
    compute_.drop_taken();
    transfers_.drop_taken();
  }

  // Settles all, and sets the metrics of the rank's memory to those of the first iteration.
  void finish(const std::vector<StageFootprint>& footprints, RankMetrics& metrics) {
    settle(std::numeric_limits<std::int64_t>::max(), footprints);
    const MemoryMeter& meter = has_first_ ? first_ : meter_;
    metrics.peak_activation_chunks = meter.peak_chunks();
    metrics.peak_activation_bytes = meter.peak_activation_bytes();
    metrics.peak_memory = meter.peak();
  }

 private:
  struct Queue {
    std::vector<Event> events;
    std::size_t next = 0;

    std::size_t size() const { return events.size() - next; }
    const Event* first() const { return next == events.size() ? nullptr : &events[next]; }
    void drop_taken() {
      events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(next));
      next = 0;
    }
  };

  Queue compute_;
  Queue transfers_;
  MemoryMeter meter_;
  MemoryMeter first_;
  bool has_first_ = false;
};

}  // namespace pipesim
