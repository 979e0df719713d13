// Does a prediction fit into this machine's memory?
#pragma once

#include <cstdint>

#include "sim/schedule/family.h"

namespace pipesim {

// The bytes that simulate() needs beside the schedule, per (stage, microbatch),
// and per action where it queues events: the program, its streams, its inputs.
inline constexpr std::int64_t simulation_bytes_per_slot = 24;
inline constexpr std::int64_t event_bytes_per_action = 80;

// Refuses, with the estimate, a schedule of that shape that would not fit
// together with its simulation and `bytes_per_action` of the caller's own.
// Cheap: nothing of the schedule's size is built.
void check_size(const Family& family, const ScheduleRequest& request,
                std::int64_t bytes_per_action);
// The same for a schedule that is there already.
void check_size(const Schedule& schedule, std::int64_t bytes_per_action);

}  // namespace pipesim
