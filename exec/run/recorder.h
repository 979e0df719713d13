// What a rank did, when, and what it held: written down as it runs.
//
// Notes name instants, some of which are the device's and have no time until it
// gets there. With the end of an iteration they become spans, layers and samples, as
// traces have them, whose times are those of the rank's clock (clock.h); as plain values
// they travel to rank 0. A recorder belongs to one rank and one thread; its device
// outlives it.
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
  Instant reached;  // when the rank came to it; of a SEND: when its result was there
  Instant start;
  Instant end;
  std::int64_t bytes = 0;     // of a transfer
  std::int64_t taken_ns = 0;  // of what this thread computes: see processor.h
};
// A layer's part of a compute action.
struct LayerNote {
  Action action;
  std::int32_t layer = 0;
  Kind kind = Kind::F;  // F, I or W
  bool again = false;   // a forward that is done once more, in a backward
  Instant start;
  Instant end;
  std::int64_t taken_ns = 0;
};
// An exchange with tensor-parallel ranks within a layer's part.
struct ExchangeNote {
  Action action;
  std::int32_t layer = 0;
  GroupExchange what = GroupExchange::all_reduce;
  std::int32_t ranks = 1;
  std::int64_t bytes = 0;
  Instant start;
  Instant begun;    // its first messages are under way
  Instant awaited;  // from when on the rank did nothing else
  Instant end;
};
// What the rank holds from an instant on.
struct MemoryNote {
  Instant time;
  std::int64_t chunks = 0;  // activations alive
  UsedBytes bytes;
};

// An iteration of one rank, of which ranks and numbers are not filled in, or, once they are
// brought together, of all.
struct IterationRecord {
  std::vector<Span> spans;
  std::vector<LayerSpan> layers;
  std::vector<ExchangeSpan> exchanges;
  std::vector<MemorySample> samples;
};

class Recorder {
 public:
  // Layers and memory are recorded only where asked for. Whether this thread `computes`: then it
  // is known for how long others had its processor.
  Recorder(Device& device, const Clock& clock, bool in_detail, bool computes = false)
      : device_(device), clock_(clock), in_detail_(in_detail), computes_(computes) {}

  bool in_detail() const { return in_detail_; }
  // Of this thread.
  Instant now() const { return {clock_.now_ns(), false}; }
  // Of what is computed from here on; to be asked for before the mark of its start.
  ProcessorWatch watch() const { return ProcessorWatch(computes_, waited_ns_); }
  ProcessorWatch watch_layer() const { return ProcessorWatch(computes_ && in_detail_, waited_ns_); }
  // In what it computes the thread waits for others: for as long as it does not run meanwhile.
  template <typename Wait>
  void wait(const Wait& wait) {
    const ProcessorWatch own = watch();
    wait();
    waited_ns_ += own.taken_ns();
  }
  // Of the device: when all has run that it was asked for so far.
  Instant mark() const { return {device_.mark(), true}; }

  // What comes belongs to a new iteration, kept or forgotten.
  void start_iteration(bool keep);

  void add(const ActionNote& note) { actions_.push_back(note); }
  void add(const LayerNote& note) {
    if (in_detail_) layers_.push_back(note);
  }
  // What comes is of that layer's part of an action.
  void enter(const Action& action, std::int32_t layer) {
    action_ = action;
    layer_ = layer;
  }
  // An exchange in there that starts once the device has done what it was asked for.
  ExchangeNote exchange(GroupExchange what, std::int32_t ranks, std::int64_t bytes) const {
    return {action_, layer_, what, ranks, bytes, mark(), {}, {}, {}};
  }
  void add(const ExchangeNote& note) { exchanges_.push_back(note); }
  void add(const MemoryNote& note) {
    if (in_detail_) memory_.push_back(note);
  }
  // Waits for the device, and ends all its marks.
  void finish_iteration();

  // What went on beside after the end of an iteration that was kept, by its place.
  void add_beside(std::size_t place, const Action& action, std::int64_t bytes,
                  std::int64_t start_monotonic_ns, std::int64_t end_monotonic_ns);

  // Those kept, in order.
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
