// What each process of a profile did: its ranges, with the time that the work
// they stand for took, on the device where there is one.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/read/profile/profile_file.h"

namespace pipesim {

// An action, two in one cell, or an action of which not all is known yet.
struct ProfileOperation {
  RangeName::Says says = RangeName::Says::nothing;
  Action action;
  Action partner;              // in a cell with it, where `action` is joined
  std::int64_t called_ns = 0;  // when the processor came to it
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t queued_ns = 0;  // it waited for its input so long, before its start
  std::int64_t bytes = 0;
  std::int64_t iteration = -1;  // none yet
  bool lost = false;            // the device's part is not in the file: only `called_ns` holds
};

struct ProfileStep {
  std::int32_t number = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// A process that has ranges of a pipeline: a rank.
struct ProfileProcess {
  std::size_t file = 0;  // which of the files
  std::string name;      // for messages
  std::string process_name;
  std::vector<ProfileOperation> operations;  // by `called_ns`
  std::vector<ProfileStep> steps;            // by start
};

struct ProfileOperations {
  std::vector<ProfileProcess> processes;
  // Kernels and ranges of which it is not known to which action they belong.
  std::int64_t unmatched = 0;
};

// Those of one file. Turns count only where `with_turns`, and only outermost.
ProfileOperations find_operations(const ProfileFile& file, std::size_t index, bool with_turns,
                                  Warnings& warnings);

}  // namespace pipesim
