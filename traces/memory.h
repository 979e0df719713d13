// What a rank keeps in memory, by category, as its actions start and end.
//
// One definition (METRICS.md, "Memory") for the evaluations, which meter as
// they run, and for the trace writer, which replays a timeline. Bytes.
// Plain values; a meter belongs to one rank and one thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "traces/action.h"

namespace pipesim {

// What a stage keeps alive for one microbatch.
struct StageFootprint {
  std::int64_t activation_bytes = 0;      // from the start of F to the end of B or I
  std::int64_t weight_residue_bytes = 0;  // from the end of I to the end of W
  // What it exchanges with other ranks; 0 where the neighbour stage lives on
  // its own rank, or there is none.
  std::int64_t forward_input_bytes = 0;
  std::int64_t forward_output_bytes = 0;
  std::int64_t backward_input_bytes = 0;
  std::int64_t backward_output_bytes = 0;
};

// What a rank holds from beginning to end.
struct StateBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;

  std::int64_t total() const { return weights + gradients + optimizer; }
};

// What comes and goes. A send buffer holds a result from the end of the action
// that makes it to its arrival; a receive buffer from the start of the
// transfer until an F takes it over as part of its activations, or until the
// B or I that needs it ends.
struct WorkingBytes {
  std::int64_t activations = 0;
  std::int64_t residue = 0;
  std::int64_t send_buffers = 0;
  std::int64_t receive_buffers = 0;

  std::int64_t total() const { return activations + residue + send_buffers + receive_buffers; }
  bool operator==(const WorkingBytes&) const = default;
};

// The fullest instant of a rank, the first of several: what it held, and the
// action at whose start or end it came to that. Nothing where it never held
// anything.
struct MemoryPeak {
  WorkingBytes bytes;
  std::int64_t total = 0;  // of `bytes`
  std::int64_t time_ns = 0;
  Action action;
};

class MemoryMeter {
 public:
  void start(const Action& action, const StageFootprint& footprint, std::int64_t time_ns) {
    switch (action.kind) {
      case Kind::F:
        peak_chunks_ = std::max(peak_chunks_, ++chunks_);
        now_.activations += footprint.activation_bytes;
        now_.receive_buffers -= footprint.forward_input_bytes;
        peak_activation_bytes_ = std::max(peak_activation_bytes_, now_.activations + now_.residue);
        break;
      case Kind::RECV_F: now_.receive_buffers += footprint.forward_input_bytes; break;
      case Kind::RECV_B: now_.receive_buffers += footprint.backward_input_bytes; break;
      default: return;
    }
    look_for_peak(action, time_ns);
  }

  void end(const Action& action, const StageFootprint& footprint, std::int64_t time_ns) {
    switch (action.kind) {
      case Kind::F: now_.send_buffers += footprint.forward_output_bytes; break;
      case Kind::I: now_.residue += footprint.weight_residue_bytes; [[fallthrough]];
      case Kind::B:
        --chunks_;
        now_.activations -= footprint.activation_bytes;
        now_.receive_buffers -= footprint.backward_input_bytes;
        now_.send_buffers += footprint.backward_output_bytes;
        peak_activation_bytes_ = std::max(peak_activation_bytes_, now_.activations + now_.residue);
        break;
      case Kind::W: now_.residue -= footprint.weight_residue_bytes; break;
      case Kind::SEND_F: now_.send_buffers -= footprint.forward_output_bytes; break;
      case Kind::SEND_B: now_.send_buffers -= footprint.backward_output_bytes; break;
      default: return;
    }
    look_for_peak(action, time_ns);
  }

  std::int64_t chunks() const { return chunks_; }
  const WorkingBytes& now() const { return now_; }

  std::int64_t peak_chunks() const { return peak_chunks_; }
  std::int64_t peak_activation_bytes() const { return peak_activation_bytes_; }  // and residue
  const MemoryPeak& peak() const { return peak_; }

 private:
  void look_for_peak(const Action& action, std::int64_t time_ns) {
    assert(chunks_ >= 0 && now_.activations >= 0 && now_.residue >= 0 && now_.send_buffers >= 0 &&
           now_.receive_buffers >= 0 && "memory below nothing");
    const std::int64_t total = now_.total();
    if (total > peak_.total) [[unlikely]]
      peak_ = {now_, total, time_ns, action};
  }

  std::int64_t chunks_ = 0;
  WorkingBytes now_;
  std::int64_t peak_chunks_ = 0;
  std::int64_t peak_activation_bytes_ = 0;
  MemoryPeak peak_;
};

}  // namespace pipesim
