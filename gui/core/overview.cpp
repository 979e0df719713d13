#include "gui/core/layout.h"

namespace pipesim::gui {

DrawList layout_overview(const Document&, const Scene&, const View&, const Canvas&,
                         const Palette&) {
  return {};
}
Viewport overview_viewport(const Scene&, const Canvas&) { return {}; }

}  // namespace pipesim::gui
