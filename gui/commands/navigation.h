// Navigation from the selection: to its neighbours, along a microbatch's path, to the other trace;
// and the view that shows the target.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <vector>

#include "gui/layout/layout.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"

namespace pipesim::gui {

// The next (1) or previous (-1) bar on its row that is not a bubble; if nothing is picked the first
// visible one.
std::optional<Pick> neighbour(const Document& document, const Scene& scene, const View& view,
                              const Picture& picture, int direction);

// The action that needs its result (1) or whose result it needs (-1), on another rank or the same;
// in an event trace the slice at the other end of an arrow: of several the first to end, or the
// last to start.
std::optional<Pick> along_flow(const Document& document, const Scene& scene, const Pick& pick,
                               int direction);

// The same action of the other trace of the pair, in its compared iteration, or of the next run of
// an input pipeline that has it.
std::optional<Pick> other_side(const Document& document, const Pick& pick);

// From the first start to the last end of those on a row, as drawn.
std::optional<TimeRange> range_of(const Document& document, const Scene& scene,
                                  const std::vector<Pick>& picks);

// The range extended by `share` of its length at either side, never shorter than the minimum, and
// kept within the scene.
TimeRange with_margin(const Scene& scene, const TimeRange& range, double share);

// How many pixels scrolling groups can be moved up.
int greatest_scroll(const Picture& picture);

}  // namespace pipesim::gui
