// A run of an input pipeline as an event trace: a track for each stream of each rank,
// slices of actions, of the host's calls and of waits, arrows along releases of actions.
//
// A compute stream's waits are no slices: they are its bubbles. Plain values. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/scene/bars.h"
#include "sim/compare/operations.h"
#include "traces/input_run.h"
#include "traces/read/event_trace.h"

namespace pipesim::gui {

enum class InputRole : std::uint8_t {
  action,  // "COPY3"
  call,    // "call COPY3": the host calls it
  wait,    // "COPY3 waits", for other ranks or, on the host, for what it reads
};

struct InputSlice {
  InputRole role = InputRole::action;
  std::int32_t rank = 0;
  std::uint32_t place = 0;  // among its rank's calls
};

// The kinds of slices in such an event trace.
struct OpenInput {
  InputRun run;
  std::vector<InputSlice> slices;          // by slice
  std::vector<std::vector<Ref>> slice_of;  // the action's, by rank and call
  std::vector<std::vector<Ref>> call_of;   // its host's, or none

  const InputCall& called_by(const InputSlice& slice) const {
    return run.program.calls[static_cast<std::size_t>(slice.rank)][slice.place];
  }
  const InputSpan& span_of(const InputSlice& slice) const {
    return run.span(slice.rank, slice.place);
  }
  // The slice of an action; no_ref where the run does not have it. In time proportional to its
  // rank's calls.
  Ref find(std::int32_t rank, const Action& action) const;
  // The slice of each operation of a comparison of such runs.
  std::vector<Ref> slices_of(const Operations& operations) const;
};

struct InputEvents {
  EventTrace events;
  OpenInput input;
};

// Tracks are of the streams that any rank uses. Each action has one arrow at most: from what let it
// go last, where that is on another stream; of the host from what it did last.
InputEvents events_of(InputRun run, const std::string& name);

}  // namespace pipesim::gui
