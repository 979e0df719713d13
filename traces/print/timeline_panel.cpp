#include "traces/print/timeline_panel.h"

#include <algorithm>

namespace pipesim {

int TimelinePanel::chunks() const {
  return chunk_of_stage.empty() ? 1 : std::ranges::max(chunk_of_stage) + 1;
}

std::vector<int> shown_ranks(int ranks) {
  constexpr int most = 16;
  std::vector<int> shown;
  if (ranks <= most + 8) {
    for (int r = 0; r < ranks; ++r) shown.push_back(r);
    return shown;
  }
  for (int i = 0; i < most; ++i) {
    shown.push_back(static_cast<int>(std::int64_t{i} * (ranks - 1) / (most - 1)));
  }
  return shown;
}

}  // namespace pipesim
