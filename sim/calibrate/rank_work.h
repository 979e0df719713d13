// A recorded iteration rank by rank: its compute actions in order, and how long
// each occupied its rank.
//
// Refers to the run's spans, which outlive it. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/recorded_run.h"

namespace pipesim {

// A compute action that shares its cell with no other.
struct ComputeWork {
  const Span* span = nullptr;
  // How long it occupied its rank. From when the rank came to it, if its input was there by then,
  // which is before its start after a late launch, unless launches are excluded; to its end, or, if
  // a measurement says when the rank came to its next compute action, to that. Excludes collectives
  // with replicas that it may have waited for, and the time that other processes took from its
  // processor.
  std::int64_t occupied_ns = 0;
  // When it released its rank: its end, or when the rank came to its next compute action.
  std::int64_t released_ns = 0;
  // Messages whose arrival the rank noticed in that time.
  std::int64_t received = 0;
  // The first of its stage and kind in the iteration: it finds cold caches.
  bool is_first = false;
};

// A forward and a backward in one cell.
struct OverlappedWork {
  const Span* forward = nullptr;
  const Span* backward = nullptr;

  std::int64_t duration_ns() const;
};

struct IterationWork {
  std::vector<ComputeWork> work;  // by rank, then in order
  std::vector<OverlappedWork> overlapped;
};

// `launches`: late ones are part of what an action takes.
IterationWork work_of(const RecordedRun& run, const RecordedIteration& iteration,
                      bool launches = true);

}  // namespace pipesim
