#include "gui/core/draw_list.h"

namespace pipesim::gui {

std::string to_svg(const DrawList&, int) { return {}; }

}  // namespace pipesim::gui
