#include "traces/print/action_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/input_action.h"

namespace pipesim {
namespace {

std::string without_stage(const Action& action) {
  return fmt::format("{}{}", kind_name(action.kind), action.microbatch);
}

// In the order of legends.
constexpr std::array<std::pair<Kind, KindSign>, 29> kind_signs = [] {
  using enum Kind;
  return std::array<std::pair<Kind, KindSign>, 29>{{{F, {'F', "forward"}},
                                                    {B, {'B', "backward"}},
                                                    {I, {'I', "input gradient"}},
                                                    {W, {'W', "weight gradient"}},
                                                    {REDUCE_GRAD, {'R', "reduction"}},
                                                    {REDUCE_TIED, {'R', "reduction"}},
                                                    {GRAD_NORM, {'G', "norm"}},
                                                    {OPTIMIZER, {'O', "optimizer"}},
                                                    {SAVE, {'S', "checkpoint"}},
                                                    {NEXT, {'N', "next batch"}},
                                                    {COPY, {'C', "copy"}},
                                                    {PREPARE, {'P', "prepare"}},
                                                    {SPLITS, {'S', "splits"}},
                                                    {READ, {'R', "read splits"}},
                                                    {IDS, {'I', "ids"}},
                                                    {PREFETCH, {'F', "prefetch"}},
                                                    {LOOKUP, {'L', "lookup"}},
                                                    {OUTPUT, {'O', "output"}},
                                                    {ZERO_GRAD, {'Z', "zero grad"}},
                                                    {BOTTOM, {'B', "bottom"}},
                                                    {TOP, {'T', "top"}},
                                                    {TOP_BACKWARD, {'t', "top backward"}},
                                                    {OUTPUT_BACKWARD, {'o', "output backward"}},
                                                    {UPDATE, {'U', "update"}},
                                                    {BOTTOM_BACKWARD, {'b', "bottom backward"}},
                                                    {REDUCE_TOP, {'G', "reduce top"}},
                                                    {REDUCE_BOTTOM, {'g', "reduce bottom"}},
                                                    {DENSE_STEP, {'D', "optimizer"}},
                                                    {IDLE, {':', "calls others"}}}};
}();

}  // namespace

ActionLabels action_labels(const Action& action, bool stages) {
  const std::string letter(1, sign_of(action.kind).letter);
  if (is_of_input(action.kind)) {
    return {without_stage(action), letter + std::to_string(action.microbatch), letter};
  }
  if (!is_compute(action.kind)) return {"", "", letter};
  return {stages ? to_text(action) : "", without_stage(action), letter};
}

ActionLabels cell_labels(const Action& first, const Action& second, bool stages) {
  return {stages ? to_text(first) + "&" + to_text(second) : "",
          without_stage(first) + "&" + without_stage(second), "&"};
}

KindSign sign_of(Kind kind) {
  const auto found = std::ranges::find(kind_signs, kind, &std::pair<Kind, KindSign>::first);
  if (found != kind_signs.end()) return found->second;
  return {kind_name(kind).front(), {}};
}

std::vector<Kind> explained_kinds() {
  std::vector<Kind> kinds;
  for (const auto& [kind, sign] : kind_signs) kinds.push_back(kind);
  return kinds;
}

Colour colour_of(Kind kind) {
  if (is_of_input(kind)) {
    switch (input_group_of(kind)) {
      case InputGroup::compute: return colours::forward;
      case InputGroup::rows: return colours::backward;
      case InputGroup::exchange: return colours::weight_gradient;
      case InputGroup::copy: return colours::other;
      case InputGroup::host: return colours::neutral;
    }
  }
  switch (kind) {
    case Kind::F: return colours::forward;
    case Kind::I:
    case Kind::B: return colours::backward;
    case Kind::W: return colours::weight_gradient;
    case Kind::IDLE:
    case Kind::SAVE: return colours::neutral;
    default: return colours::other;
  }
}

}  // namespace pipesim
