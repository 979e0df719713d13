// How pictures label and colour actions, in the terminal, in figures and in the viewer alike. The
// label is `4B0` as everywhere else, the backward of stage 4 for microbatch 0, or as much of it as
// fits. Pure; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "traces/action.h"
#include "traces/draw/colours.h"

namespace pipesim {

// The fullest first: "4B0", "B0", "B"; one that is the same as the one before is empty. `stages`
// says whether a row has actions of several stages; if not, the stage is left out. An action
// without a microbatch has only its first letter, as in a legend. Of input pipelines: "COPY3",
// "C3", "C".
using ActionLabels = std::array<std::string, 3>;
ActionLabels action_labels(const Action& action, bool stages);

// The same for a cell of two: "4F3&3B1", "F3&B1", "&".
ActionLabels cell_labels(const Action& first, const Action& second, bool stages);

Colour colour_of(Kind kind);

// The letter that stands for a kind where there is room for no more, and what it means; empty where
// no legend explains it. An input pipeline's backward has the small letter; IDLE is a host's call.
struct KindSign {
  char letter;
  std::string_view meaning;
};
KindSign sign_of(Kind kind);
// Those that legends explain, in their order.
std::vector<Kind> explained_kinds();

}  // namespace pipesim
