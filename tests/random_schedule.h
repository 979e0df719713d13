// Random valid schedules and costs, the same for the same seed everywhere.
#pragma once

#include <cstdint>
#include <random>

#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"

namespace pipesim::testing {

// Uniform in [least, most]; std::uniform_int_distribution differs between
// libraries.
inline std::int64_t pick(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
}

// Up to 5 ranks, 8 stages placed anyhow, 6 microbatches; B or I and W, some
// cells overlapped. Never deadlocks: it is one execution, written down.
Schedule random_schedule(std::mt19937_64& random);
// The same with second copies of its stages: 2 or 4 ranks, 2 to 6 microbatches.
Schedule random_schedule_with_copies(std::mt19937_64& random);
// Swaps neighbours in each rank's list here and there, as long as find_fault()
// finds nothing. What comes out may deadlock.
void shuffle(Schedule& program, std::mt19937_64& random);
// One to three dependencies between any actions that may have some. May deadlock.
void add_dependencies(Schedule& program, std::mt19937_64& random);

// All stages alike; times in nanoseconds.
Costs costs_of(int stages, std::int64_t forward, std::int64_t backward, std::int64_t latency = 0);
Costs random_costs(std::mt19937_64& random, const Schedule& schedule);
// Compute that messages take; what is random next does not depend on it.
void add_messages(Costs& costs, std::mt19937_64 random);
// The same costs, with transfers that take nothing but their latency.
Costs without_bytes(Costs costs);
// Makes everything take a nanosecond more, so that nothing takes none.
void take_time(Costs& costs);

}  // namespace pipesim::testing
