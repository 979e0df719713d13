// A schedule as a user names it: a family with its numbers, or a file.
//
// Both programs choose the same way and report the same errors. Pure except
// for reading the file; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/schedule/family.h"
#include "sim/schedule/size.h"

namespace pipesim {

// The texts of --schedule, --stages and so on; absent where a flag was not given.
struct ScheduleFlags {
  std::optional<std::string> schedule, stages, microbatches, virtual_stages, group, placement;
  bool overlap_experts = false;
  // That `schedule` names, if a caller has it already.
  std::shared_ptr<const Schedule> own{};

  // Whether `schedule` names one with an order of its own, no family.
  bool has_order() const;
};

// Whether a --schedule names a file: it ends in .csv or .program, or has a slash.
bool names_a_file(const std::string& schedule);

ScheduleRequest parse_request(const ScheduleFlags& flags);

struct ScheduleChoice {
  const Family* family = nullptr;  // null: the schedule is a file's
  Shape shape;                     // of the family's schedule
  Schedule schedule;
};

// Its name in a sentence; printable.
std::string title_of(const ScheduleChoice& choice);

// The family's schedule.
ScheduleChoice choose_schedule(const ScheduleRequest& request);

// Generates or reads the schedule. A file's must agree with the other flags
// given. Refuses one that would not fit in memory together with what evaluating it needs.
ScheduleChoice choose_schedule(const ScheduleFlags& flags, const BytesNeeded& needed);

}  // namespace pipesim
