// A rank's memory by category, as its actions start and end.
//
// One definition (METRICS.md, "Memory") for the evaluations, which meter as
// they run, and for the trace writer, which replays a timeline. Bytes.
// Plain values; a meter belongs to one rank and one thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "traces/action_key.h"

namespace pipesim {

// What a stage keeps alive for one microbatch.
struct StageFootprint {
  std::int64_t activation_bytes = 0;      // from the start of F to the end of B or I
  std::int64_t weight_residue_bytes = 0;  // from the end of I to the end of W
  // What it exchanges with other ranks; 0 if the neighbour stage is on
  // its own rank, or there is none.
  std::int64_t forward_input_bytes = 0;
  std::int64_t forward_output_bytes = 0;
  std::int64_t backward_input_bytes = 0;
  std::int64_t backward_output_bytes = 0;
  std::int64_t unsharded_bytes = 0;  // from the start of an UNSHARD to its RESHARD
  std::int64_t workspace_bytes = 0;  // in addition, while B or I runs
};

// What a rank holds all the time.
struct StateBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;

  std::int64_t total() const { return weights + gradients + optimizer; }
  bool operator==(const StateBytes&) const = default;
};

// What comes and goes. A send buffer holds a result from the end of the action
// that produces it to its arrival; a receive buffer from the start of the
// transfer until an F takes it over as part of its activations, or until the
// B or I that needs it ends. Gathered weights stay until they are released.
// Workspace is what a B or I needs while it runs, such as recomputed activations.
struct WorkingBytes {
  std::int64_t activations = 0;
  std::int64_t residue = 0;
  std::int64_t send_buffers = 0;
  std::int64_t receive_buffers = 0;
  std::int64_t unsharded = 0;
  std::int64_t workspace = 0;

  std::int64_t total() const {
    return activations + residue + send_buffers + receive_buffers + unsharded + workspace;
  }
  bool operator==(const WorkingBytes&) const = default;
};

// A rank's peak, the first of several equal ones: what it held, and the
// action that raised memory to it. Nothing if it never held anything.
struct MemoryPeak {
  WorkingBytes bytes;
  std::int64_t total = 0;  // of `bytes`
  std::int64_t time_ns = 0;
  Action action;
};

// A rank's bytes at its peak.
struct RankMemory {
  StateBytes states;
  MemoryPeak peak;
  std::int64_t reserved = 0;  // for any model: not from an action, and not in traces

  std::int64_t total() const { return states.total() + peak.total + reserved; }
};

// Receives every start and end on its rank in the order of time, and at one
// instant those of compute actions in the order of the rank's list. Its results
// do not depend on the order of transfers within an instant: buffers and
// gathered weights count with what is left of them at its end, activations, residue and
// workspace with the most that the list comes to.
class MemoryMeter {
 public:
  void start(const Action& action, const StageFootprint& footprint, std::int64_t time_ns) {
    switch (action.kind) {
      case Kind::F:
        open_instant(time_ns);
        peak_chunks_ = std::max(peak_chunks_, ++chunks_);
        now_.activations += footprint.activation_bytes;
        now_.receive_buffers -= footprint.forward_input_bytes;
        keep(action, footprint.activation_bytes > footprint.forward_input_bytes);
        break;
      case Kind::I:
      case Kind::B:
        if (footprint.workspace_bytes == 0) return;
        open_instant(time_ns);
        now_.workspace += footprint.workspace_bytes;
        keep(action, true);
        break;
      case Kind::RECV_F:
        open_instant(time_ns);
        now_.receive_buffers += footprint.forward_input_bytes;
        fill_by_transfer(action);
        break;
      case Kind::RECV_B:
        open_instant(time_ns);
        now_.receive_buffers += footprint.backward_input_bytes;
        fill_by_transfer(action);
        break;
      case Kind::UNSHARD:
        open_instant(time_ns);
        now_.unsharded += footprint.unsharded_bytes;
        fill_by_transfer(action);
        break;
      default: break;
    }
  }

  void end(const Action& action, const StageFootprint& footprint, std::int64_t time_ns) {
    switch (action.kind) {
      case Kind::F:
        if (footprint.forward_output_bytes == 0) return;
        open_instant(time_ns);
        now_.send_buffers += footprint.forward_output_bytes;
        if (!is_compute(filler_.kind)) filler_ = without_cell(action);
        break;
      case Kind::I:
      case Kind::B: {
        open_instant(time_ns);
        const std::int64_t before = now_.total();
        --chunks_;
        now_.activations -= footprint.activation_bytes;
        now_.workspace -= footprint.workspace_bytes;
        if (action.kind == Kind::I) now_.residue += footprint.weight_residue_bytes;
        now_.receive_buffers -= footprint.backward_input_bytes;
        now_.send_buffers += footprint.backward_output_bytes;
        keep(action, now_.total() > before);
        break;
      }
      case Kind::W:
        open_instant(time_ns);
        now_.residue -= footprint.weight_residue_bytes;
        keep(action, false);
        break;
      case Kind::SEND_F:
        open_instant(time_ns);
        now_.send_buffers -= footprint.forward_output_bytes;
        break;
      case Kind::SEND_B:
        open_instant(time_ns);
        now_.send_buffers -= footprint.backward_output_bytes;
        break;
      case Kind::RESHARD:
        open_instant(time_ns);
        now_.unsharded -= footprint.unsharded_bytes;
        break;
      default: break;
    }
  }

  // Instead of both, if nothing is exchanged, for each action of the list in
  // turn: the same in a fraction of the time.
  void step(const Action& action, const StageFootprint& footprint, std::int64_t start_ns,
            std::int64_t end_ns) {
    switch (action.kind) {
      case Kind::F:
        peak_chunks_ = std::max(peak_chunks_, ++chunks_);
        now_.activations += footprint.activation_bytes;
        fill(action, 0, start_ns);
        break;
      case Kind::I:
        if (footprint.workspace_bytes > 0) fill(action, footprint.workspace_bytes, start_ns);
        --chunks_;
        now_.activations -= footprint.activation_bytes;
        now_.residue += footprint.weight_residue_bytes;
        fill(action, 0, end_ns);
        break;
      case Kind::B:
        if (footprint.workspace_bytes > 0) fill(action, footprint.workspace_bytes, start_ns);
        --chunks_;
        now_.activations -= footprint.activation_bytes;
        break;
      case Kind::W: now_.residue -= footprint.weight_residue_bytes; break;
      default: break;
    }
  }

  std::int64_t chunks() const { return chunks_; }
  const WorkingBytes& now() const { return now_; }

  std::int64_t peak_chunks() const { return peak_chunks_; }
  std::int64_t peak_activation_bytes() const { return peak_activation_bytes_; }  // and residue
  MemoryPeak peak() const {
    MemoryMeter settled = *this;
    settled.close_instant();
    return settled.peak_;
  }

 private:
  // A single action, regardless of its cell.
  static Action without_cell(Action action) {
    action.joined = false;
    return action;
  }

  void open_instant(std::int64_t time_ns) {
    assert(time_ns >= time_ns_ && "time runs back");
    if (time_ns == time_ns_) return;
    close_instant();
    kept_ = now_;
    filler_ = {};
    is_fresh_ = true;
    time_ns_ = time_ns;
  }

  void close_instant() {
    // A recorded run may have lost an F, so the count can be negative.
    assert(now_.activations >= 0 && now_.residue >= 0 && now_.send_buffers >= 0 &&
           now_.receive_buffers >= 0 && now_.unsharded >= 0 && now_.workspace >= 0 &&
           "negative memory");
    WorkingBytes fullest = now_;
    fullest.activations = kept_.activations;
    fullest.residue = kept_.residue;
    fullest.workspace = kept_.workspace;
    if (fullest.total() > peak_.total) peak_ = {fullest, fullest.total(), time_ns_, filler_};
  }

  // What compute actions take, apart from what they exchange.
  static std::int64_t of_compute(const WorkingBytes& bytes) {
    return bytes.activations + bytes.residue + bytes.workspace;
  }

  // Notes what a compute action has left of these, and, where it has `raised`
  // memory to the most of its instant, the action.
  void keep(const Action& action, bool raised) {
    peak_activation_bytes_ = std::max(peak_activation_bytes_, now_.activations + now_.residue);
    const bool higher = is_fresh_ || of_compute(now_) > of_compute(kept_);
    if (raised && (higher || !is_compute(filler_.kind))) filler_ = without_cell(action);
    if (!higher) return;
    is_fresh_ = false;
    kept_ = now_;
  }

  // The same for step(), with `workspace` on top.
  void fill(const Action& action, std::int64_t workspace, std::int64_t time_ns) {
    const std::int64_t kept = now_.activations + now_.residue;
    if (kept > peak_activation_bytes_) peak_activation_bytes_ = kept;
    if (kept + workspace <= peak_.total) return;
    peak_ = {now_, kept + workspace, time_ns, without_cell(action)};
    peak_.bytes.workspace = workspace;
  }

  // Compute actions come first; of transfers and collectives the smallest counts.
  void fill_by_transfer(const Action& action) {
    if (is_compute(filler_.kind)) return;
    const bool is_first = filler_.kind == Kind::IDLE || ActionKey(action) < ActionKey(filler_);
    if (is_first) filler_ = action;
  }

  // For the open instant: whether no compute action has changed anything yet,
  // the most held, and the action that caused it.
  bool is_fresh_ = true;
  std::int64_t time_ns_ = 0;
  WorkingBytes kept_;
  Action filler_;

  std::int64_t chunks_ = 0;
  WorkingBytes now_;
  std::int64_t peak_chunks_ = 0;
  std::int64_t peak_activation_bytes_ = 0;
  MemoryPeak peak_;
};

}  // namespace pipesim
