// Time by stacks, of one run or one trace.
#pragma once

#include "traces/flame/stacks.h"

namespace pipesim::testing {

inline Stacks stacks_of(const RecordedRun& run) {
  StackCollector collector;
  collector.add(run);
  return collector.take();
}

inline Stacks stacks_of(const EventTrace& events) {
  StackCollector collector;
  collector.add(events);
  return collector.take();
}

}  // namespace pipesim::testing
