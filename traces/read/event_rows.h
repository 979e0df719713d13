// Where the slices of a track go: nested ones below what holds them, overlapping ones
// side by side. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "traces/base/large_vector.h"
#include "traces/read/event_trace.h"

namespace pipesim {

// Puts the slices of one track in order of (start, longest first) and gives each its row.
// `row` comes in as how deep a slice is known to be among those of its own times.
// Returns the number of rows. Slices that more than `most` rows would take are moved to
// `rest`, to be laid out as another track.
int lay_out(LargeVector<Slice>& slices, LargeVector<Slice>& rest, int most = 1 << 15);

// Sorts slices that are laid out by (row, start).
void sort_by_row(std::span<const Slice> slices, int rows, LargeVector<Slice>& to);

}  // namespace pipesim
