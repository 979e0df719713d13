// What a rank did, when, and what it held: written down as it runs.
//
// Times are those of the rank's clock (clock.h). A recorder belongs to one rank and one thread.
// What it keeps of an iteration are plain values, which travel to rank 0 as bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/model/tensor.h"
#include "exec/run/clock.h"
#include "traces/action.h"

namespace pipesim::exec {

struct ActionRecord {
  Action action;
  std::int64_t reached_ns = 0;  // when the rank came to it; of a SEND: when its result was there
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;  // of a transfer
};

// A layer's part of a compute action.
struct LayerRecord {
  Action action;
  std::int32_t layer = 0;
  Kind kind = Kind::F;  // F, I or W
  bool again = false;   // a forward that is done once more, in a backward
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// What the rank holds from an instant on.
struct MemoryRecord {
  std::int64_t time_ns = 0;
  std::int64_t chunks = 0;  // activations alive
  UsedBytes bytes;
};

struct IterationRecord {
  std::vector<ActionRecord> actions;
  std::vector<LayerRecord> layers;
  std::vector<MemoryRecord> memory;
};

class Recorder {
 public:
  // Layers and memory are recorded only where asked for.
  Recorder(const Clock& clock, bool in_detail) : clock_(clock), in_detail_(in_detail) {}

  std::int64_t now_ns() const { return clock_.now_ns(); }

  // What comes belongs to a new iteration, kept or forgotten.
  void start_iteration(bool keep);

  void add(const ActionRecord& record) { now_.actions.push_back(record); }
  void add(const LayerRecord& record) {
    if (in_detail_) now_.layers.push_back(record);
  }
  void add(const MemoryRecord& record) {
    if (in_detail_) now_.memory.push_back(record);
  }
  void finish_iteration();

  // Those kept, in order.
  const std::vector<IterationRecord>& iterations() const { return kept_; }

 private:
  Clock clock_;
  bool in_detail_;
  bool keep_ = false;
  IterationRecord now_;
  std::vector<IterationRecord> kept_;
};

}  // namespace pipesim::exec
