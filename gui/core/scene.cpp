#include "gui/core/scene.h"

namespace pipesim::gui {

Scene build_scene(const Document&, const SceneOptions&) { return {}; }
void change_scene(Scene&, const Document&, const SceneOptions&) {}
void emphasise(Scene&, const Document&, const std::vector<Pick>&) {}
std::optional<Place> find(const Scene&, const Document&, const Pick&) { return {}; }

}  // namespace pipesim::gui
