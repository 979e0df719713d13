#include "gui/core/commands.h"

namespace pipesim::gui {

std::span<const CommandHelp> command_list() { return {}; }
View apply(Command, const Document&, const Scene&, const View& v, const Picture&) { return v; }
View with_pick(const Document&, const Scene&, const View& v, const Pick&, const Picture&) {
  return v;
}
View with_emphasis(const Document&, const Scene&, const View& v, std::vector<Pick>,
                   const Picture&) {
  return v;
}

}  // namespace pipesim::gui
