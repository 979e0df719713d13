// Records what a rank does, when, and the memory it holds.
// Notes refer to instants, some of which are the device's and have no time until it gets there. At
// the end of an iteration they become spans, layers and samples, as in traces, with times of the
// rank's clock (clock.h); as plain values they are sent to rank 0. A recorder belongs to one rank
// and one thread; its device must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/model/tensor.h"
#include "exec/run/clock.h"
#include "exec/run/processor.h"
#include "traces/timeline.h"

namespace pipesim::exec {

// A time of the rank's clock, or a mark of its device.
struct Instant {
  std::int64_t value = 0;
  bool is_mark = false;
};

struct ActionNote {
  Action action;
  Instant reached;  // when the rank reached it; for a SEND: when its result was ready
  Instant start;
  Instant end;
  std::int64_t bytes = 0;         // of a transfer
  std::int64_t preempted_ns = 0;  // of this thread's compute: see processor.h
};
// A layer's part of a compute action.
struct LayerNote {
  Action action;
  std::int32_t layer = 0;
  Kind kind = Kind::F;  // F, I or W
  bool again = false;   // a forward recomputed in a backward
  Instant start;
  Instant end;
  std::int64_t preempted_ns = 0;
};
// An exchange with tensor-parallel ranks within a layer's part.
struct ExchangeNote {
  Action action;
  std::int32_t layer = 0;
  GroupExchange what = GroupExchange::all_reduce;
  std::int32_t ranks = 1;
  std::int64_t bytes = 0;
  Instant start;
  Instant begun;    // its first messages are in flight
  Instant awaited;  // since when the rank did nothing else
  Instant end;
};
// The rank's memory from an instant on.
struct MemoryNote {
  Instant time;
  std::int64_t chunks = 0;  // activations alive
  UsedBytes bytes;
};

// An iteration of one rank, without rank and iteration numbers, or, once gathered, of all ranks.
struct IterationRecord {
  std::vector<Span> spans;
  std::vector<LayerSpan> layers;
  std::vector<ExchangeSpan> exchanges;
  std::vector<MemorySample> samples;
};

class Recorder {
 public:
  // Layers and memory are recorded only with `in_detail`. If this thread `computes`, the time that
  // others had its processor is recorded.
  Recorder(Device& device, const Clock& clock, bool in_detail, bool computes = false)
      : device_(device), clock_(clock), in_detail_(in_detail), computes_(computes) {}

  bool in_detail() const { return in_detail_; }
  // This thread's time.
  Instant now() const { return {clock_.now_ns(), false}; }
  // Watches compute from here on; call before mark() for its start.
  ProcessorWatch watch() const { return ProcessorWatch(computes_, waited_ns_); }
  ProcessorWatch watch_layer() const { return ProcessorWatch(computes_ && in_detail_, waited_ns_); }
  // Runs a wait for others within compute: the time that the thread does not run meanwhile is not
  // counted as taken.
  template <typename Wait>
  void wait(const Wait& wait) {
    const ProcessorWatch own = watch();
    wait();
    waited_ns_ += own.preempted_ns();
  }
  // The device's: when everything submitted so far has run.
  Instant mark() const { return {device_.mark(), true}; }

  // The following notes belong to a new iteration, kept or dropped.
  void start_iteration(bool keep);

  void add(const ActionNote& note) { actions_.push_back(note); }
  void add(const LayerNote& note) {
    if (in_detail_) layers_.push_back(note);
  }
  // The following exchanges belong to that layer's part of an action.
  void enter(const Action& action, std::int32_t layer) {
    action_ = action;
    layer_ = layer;
  }
  // An exchange in there that starts once the device has done everything submitted so far.
  ExchangeNote exchange(GroupExchange what, std::int32_t ranks, std::int64_t bytes) const {
    return {action_, layer_, what, ranks, bytes, mark(), {}, {}, {}};
  }
  void add(const ExchangeNote& note) { exchanges_.push_back(note); }
  void add(const MemoryNote& note) {
    if (in_detail_) memory_.push_back(note);
  }
  // Waits for the device, and ends all its marks.
  void finish_iteration();

  // Adds a background action after the end of a kept iteration, by its index.
  void add_beside(std::size_t place, const Action& action, std::int64_t bytes,
                  std::int64_t start_monotonic_ns, std::int64_t end_monotonic_ns);

  // The kept ones, in order.
  const std::vector<IterationRecord>& iterations() const { return kept_; }

 private:
  std::int64_t time_of(Instant instant) const;

  Device& device_;
  Clock clock_;
  bool in_detail_;
  bool computes_;
  bool keep_ = false;
  std::vector<ActionNote> actions_;
  std::vector<LayerNote> layers_;
  std::vector<ExchangeNote> exchanges_;
  std::vector<MemoryNote> memory_;
  Action action_;
  std::int32_t layer_ = 0;
  std::int64_t waited_ns_ = 0;
  std::vector<IterationRecord> kept_;
};

}  // namespace pipesim::exec
