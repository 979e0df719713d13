#include "gui/core/curve.h"

namespace pipesim::gui {

void Curve::add(CurvePoint) {}
void Curve::finish() {}
std::optional<std::int64_t> Curve::value_at(std::int64_t) const { return {}; }
std::optional<Curve::Extremes> Curve::extremes(std::int64_t, std::int64_t) const { return {}; }

}  // namespace pipesim::gui
