// Whether work on a schedule fits into this machine's memory.
#pragma once

#include <chrono>
#include <cstdint>

#include "sim/schedule/family.h"

namespace pipesim {

// What a caller needs besides the schedule itself.
struct BytesNeeded {
  std::int64_t per_action = 0;
  std::int64_t per_slot = 0;   // of (stage, microbatch)
  std::int64_t per_stage = 0;  // per virtual stage
  std::int64_t per_rank = 0;
  int iterations = 1;  // that all this covers, for messages

  BytesNeeded& operator+=(const BytesNeeded& other) {
    per_action += other.per_action;
    per_slot += other.per_slot;
    per_stage += other.per_stage;
    per_rank += other.per_rank;
    return *this;
  }
  // For `count` iterations at once, whose lists are held along with those of one.
  BytesNeeded times(int count) const;
};

// How many actions its schedule has, or as many as there can be where a family has cells for I and
// W that it need not use.
double actions_of(const Family& family, const ScheduleRequest& request);

// An evaluation takes no more than a microsecond an action: with more actions than this it may take
// longer than all of a budget.
inline std::int64_t actions_within(std::chrono::nanoseconds time) { return time.count() / 1000; }

// Refuses, with the estimate, a schedule of that shape that would not fit together with what is
// needed besides it. Cheap: builds nothing of the schedule's size.
void check_size(const Family& family, const ScheduleRequest& request, const BytesNeeded& needed);
// The same for an existing schedule; a slot counts as an action.
void check_size(const Schedule& schedule, const BytesNeeded& needed);

}  // namespace pipesim
