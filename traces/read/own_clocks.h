// Clocks of our own traces put right, if something arrives before it was sent. Pure; any thread.
#pragma once

#include "traces/recorded_run.h"

namespace pipesim {

// Shifts the times of ranks by as little as possible so that no input arrives before it was sent,
// with a warning; else the run stays as it is. Expects joined inputs, of ranks whose times in one
// iteration are at most 11 days apart.
void put_clocks_right(RecordedRun& run);

// Sorts spans as a RecordedRun has them, unless they are; the actions of a cell stay together.
void sort_spans(LargeVector<Span>& spans);

}  // namespace pipesim
