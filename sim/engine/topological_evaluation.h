// Evaluates a schedule in an order in which every action comes after all that it waits for: each
// starts at the latest end of what it waits for. Each action is visited once, no event is queued.
//
// It serves every mode of transfer, as long as all durations are known at the start. A message is
// played as if it were alone on its link.
//
// Depends only on its arguments; calls share nothing; any thread.
#pragma once

#include <optional>

#include "sim/engine/prepare.h"

namespace pipesim {

// `schedule` is of one iteration, with its closing actions; unless Evaluation is `alone`, it lists
// no transfers, and lower() says in which order ranks send and receive. Throws if it deadlocks,
// with the wait-for cycle. Nothing if a link would have carried two messages at once.
std::optional<Metrics> evaluate_topologically(const Schedule& schedule, const Prepared& prepared);

// As if messages were asynchronous, and each alone on its links: the times are lower bounds of any
// other evaluation's. Buffers of messages are not counted.
Metrics evaluate_alone(const Schedule& schedule, const Prepared& prepared);

}  // namespace pipesim
