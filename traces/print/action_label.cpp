#include "traces/print/action_label.h"

#include <fmt/format.h>

namespace pipesim {
namespace {

std::string without_stage(const Action& action) {
  return fmt::format("{}{}", kind_name(action.kind), action.microbatch);
}

}  // namespace

ActionLabels action_labels(const Action& action, bool stages) {
  const std::string letter(kind_name(action.kind).substr(0, 1));
  if (!is_compute(action.kind)) return {"", "", letter};
  return {stages ? to_text(action) : "", without_stage(action), letter};
}

ActionLabels cell_labels(const Action& first, const Action& second, bool stages) {
  return {stages ? to_text(first) + "&" + to_text(second) : "",
          without_stage(first) + "&" + without_stage(second), "&"};
}

Colour colour_of(Kind kind) {
  switch (kind) {
    case Kind::F: return colours::forward;
    case Kind::I:
    case Kind::B: return colours::backward;
    case Kind::W: return colours::weight_gradient;
    case Kind::SAVE: return colours::neutral;
    default: return colours::other;
  }
}

}  // namespace pipesim
