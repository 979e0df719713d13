// A rank's memory, metered in the order of time though told in another.
//
// Compute is told in the order of the rank's list; transfers at any distance ahead of it or behind.
// Events wait here until nothing earlier can come. Plain values; one rank, one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "traces/memory.h"
#include "traces/metrics.h"

namespace pipesim {

class MergedMemory {
 public:
  // A start or end of an action of an iteration.
  struct Event {
    std::int64_t time_ns;
    Action action;
    bool ends;
    std::int32_t iteration = 0;  // of transfers
  };

  void add_compute(const Event& event) { compute_.push_back(event); }
  void add_transfer(const Event& event) { (event.ends ? sends_ : receives_).push_back(event); }
  // The compute told from here on belongs to this iteration, and so do its transfers, even those of
  // the instant at which it begins.
  void begin_iteration(std::int32_t iteration, std::int64_t start_ns) {
    add_compute({start_ns, Action(), false, iteration});
  }

  std::size_t waiting() const { return compute_.size() + sends_.size() + receives_.size(); }

  // Nothing before this time will be told any more.
  void settle(std::int64_t before_ns, const std::vector<StageFootprint>& footprints) {
    put_in_order(sends_);
    put_in_order(receives_);
    auto compute = compute_.begin(), send = sends_.begin(), receive = receives_.begin();
    for (;;) {
      auto* next = compute == compute_.end() ? nullptr : &compute;
      const auto consider = [&](auto& transfer, const std::vector<Event>& all) {
        if (transfer == all.end()) return;
        if (next == nullptr || comes_before(*transfer, **next)) next = &transfer;
      };
      consider(send, sends_);
      consider(receive, receives_);
      if (next == nullptr || (*next)->time_ns >= before_ns) break;
      const Event& event = *(*next)++;
      if (event.action.kind == Kind::IDLE) {
        if (!has_first_) first_ = meter_;
        has_first_ = true;
        iteration_ = event.iteration;
        continue;
      }
      const StageFootprint& footprint = footprints[static_cast<std::size_t>(event.action.stage)];
      if (event.ends) {
        meter_.end(event.action, footprint, event.time_ns);
      } else {
        meter_.start(event.action, footprint, event.time_ns);
      }
    }
    compute_.erase(compute_.begin(), compute);
    sends_.erase(sends_.begin(), send);
    receives_.erase(receives_.begin(), receive);
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
  static bool sooner(const Event& one, const Event& other) {
    return one.time_ns != other.time_ns ? one.time_ns < other.time_ns
                                        : one.iteration < other.iteration;
  }
  // A few are nearly in order; many may be in any.
  static void put_in_order(std::vector<Event>& events) {
    constexpr std::size_t few = 512;
    if (events.size() > few) {
      std::ranges::sort(events, sooner);
      return;
    }
    for (std::size_t i = 1; i < events.size(); ++i) {
      const Event event = events[i];
      std::size_t at = i;
      for (; at > 0 && sooner(event, events[at - 1]); --at) events[at] = events[at - 1];
      events[at] = event;
    }
  }

  // Of an instant an iteration's transfers come before the next iteration begins, and its own
  // after that.
  bool comes_before(const Event& transfer, const Event& other) const {
    if (transfer.time_ns != other.time_ns) return transfer.time_ns < other.time_ns;
    const bool begins = other.action.kind == Kind::IDLE;
    return begins ? transfer.iteration < other.iteration : transfer.iteration <= iteration_;
  }

  // Each nearly in order: when actions start and end, when messages have left, and when they begin
  // to come.
  std::vector<Event> compute_, sends_, receives_;
  MemoryMeter meter_;
  MemoryMeter first_;
  bool has_first_ = false;
  std::int32_t iteration_ = 0;  // that has begun
};

}  // namespace pipesim
