// Lays out the slices of a track in rows: nested ones below their parents, overlapping ones side by
// side. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "traces/base/large_vector.h"
#include "traces/read/event_trace.h"

namespace pipesim {

// Puts the slices of one track in order of (start, longest first) and gives each its row.
// On entry `row` is a slice's known depth among those of the same times. Returns the number of
// rows. Slices that would need more than `most` rows are moved to `rest`, to be laid out as another
// track.
int lay_out(LargeVector<Slice>& slices, LargeVector<Slice>& rest, int most = 1 << 15);

// Sorts laid-out slices by (row, start).
void sort_by_row(std::span<const Slice> slices, int rows, LargeVector<Slice>& to);

}  // namespace pipesim
