#include "gui/core/layout.h"

namespace pipesim::gui {

Picture layout(const Document&, const Scene&, const View&, const Canvas&, const Palette&) {
  return {};
}
std::optional<Hit> hit(const Picture&, const Scene&, int, int) { return {}; }
std::string axis_text(std::int64_t, std::int64_t, Alignment) { return {}; }

}  // namespace pipesim::gui
