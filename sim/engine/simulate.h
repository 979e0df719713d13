// Evaluates a schedule with costs: when each action runs.
//
// A schedule here is a compute schedule, whose results travel as soon as they
// exist, or a program with SEND and RECV in its lists. Each rank does its
// actions in order, each as early as its inputs and the mode of transfer allow,
// exactly to the nanosecond. After its last action a rank reduces its gradients
// and steps its optimizer where the costs say so, and, at the end of some iterations, saves its
// part of a checkpoint. Then it begins the next iteration, if
// there are several; metrics are of the first.
//
// Two evaluations give the same result, and the choice is made here: one in topological order,
// where all durations are known at the start, fastest where messages take nothing but their
// latency; the event engine where they are not, since messages share links or slow compute down, or
// replicas exchange something. The result depends on the arguments alone; the order in which a sink
// is told of spans, on the evaluation. Memory: O(actions) and O(stages x microbatches). Calls share
// nothing; any thread.
#pragma once

#include <cstdint>

#include "sim/cost/costs.h"
#include "sim/engine/jitter.h"
#include "sim/engine/p2p.h"
#include "sim/schedule/schedule.h"
#include "traces/accumulation.h"
#include "traces/base/budget.h"
#include "traces/metrics.h"
#include "traces/saves.h"
#include "traces/timeline.h"

namespace pipesim {

struct SimulationOptions {
  Transfers transfers;
  // Consecutive, without a barrier between them.
  int iterations = 1;
  Accumulation accumulation;
  Saves saves;  // if any, the costs must have theirs
  // Receives every span, compute and transfer, if given.
  SpanSink sink;
  // The jitter of actions' times, if any; must outlive the call.
  const Jitter* jitter = nullptr;
  // Throws where it is over; must outlive the call. Null: takes as long as it likes.
  const Budget* budget = nullptr;
  // Uses the event engine even if another evaluation would do.
  bool always_by_events = false;
};

// Expects a schedule that find_fault() passes and costs that check() passes. A
// compute schedule is lowered first if the mode needs the order of
// transfers. Throws if the schedule deadlocks, with the wait-for cycle that
// find_deadlock() finds.
Metrics simulate(const Schedule& schedule, const Costs& costs,
                 const SimulationOptions& options = {});

}  // namespace pipesim
