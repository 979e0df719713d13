// Which part of a trace is viewed, and the shift of its times.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gui/scene/document.h"
#include "gui/scene/scene.h"
#include "traces/bubbles.h"

namespace pipesim::gui {

// The iteration that represents the run; it has one.
const RecordedIteration& compared_iteration(const RecordedRun& run);

// How far a rank's clock was found to be ahead; 0 outside the pair's measured run.
std::int64_t clock_ahead_ns(const Document& document, int trace, std::int32_t rank);

// The first start of all slices and samples; in O(rows).
std::int64_t first_start_ns(const EventTrace& events);

// What an alignment adds to the times of a run's rank, or, with any rank, of an
// event trace.
std::int64_t offset_ns(const Document& document, int trace, std::int32_t rank, Alignment alignment);

// The idle times of an iteration, told with clocks put right as the comparison has
// them, in the trace's times.
std::vector<IdleSpan> idle_times(const Document& document, int trace,
                                 const RecordedIteration& iteration);

}  // namespace pipesim::gui
