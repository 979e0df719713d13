// Evaluates a schedule in an order in which every action comes after all that it waits for: each
// starts at the latest end of what it waits for. No events are queued.
//
// It serves every mode of transfer, as long as all durations are known at the start. A message is
// played as if it were alone on its link.
#pragma once

#include <optional>

#include "sim/engine/prepare.h"

namespace pipesim {

// `schedule` is a compute schedule of one iteration with its closing actions; lower() says in which
// order ranks send and receive. Nothing if a link would have carried two messages at once.
std::optional<Metrics> evaluate_topologically(const Schedule& schedule, const Prepared& prepared);

}  // namespace pipesim
