// What stays in view when the time axis changes.
//
// Pure; any thread.
#pragma once

#include "gui/layout/layout.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"

namespace pipesim::gui {

// The view in another alignment, for the scene that has it. Between the alignments by time the
// picked bar, or the first visible one, stays in place, and areas and marks keep their distance to
// it. To and from slots, or if nothing is visible, it is home, without area and marks. `scene` and
// `picture` are those of `view`.
View realigned(const Document& document, const Scene& scene, View view, const Picture& picture,
               Alignment alignment);

}  // namespace pipesim::gui
