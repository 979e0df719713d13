// The operations of each process of a profile: its ranges, with the times of their work, on the
// device if there is one.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/read/profile/profile_file.h"

namespace pipesim {

// An action, two in one cell, or an action not yet fully identified.
struct ProfileOperation {
  RangeName::Says says = RangeName::Says::nothing;
  Action action;
  Action partner;              // in the same cell, if `action` is joined
  std::int64_t called_ns = 0;  // when the processor reached it
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t queued_ns = 0;  // time it waited for its input, before its start
  std::int64_t bytes = 0;
  std::int64_t iteration = -1;  // none yet
  bool lost = false;            // the device's part is not in the file: only `called_ns` is valid
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
  // Kernels and ranges whose action is unknown.
  std::int64_t unmatched = 0;
};

// Those of one file. Turns count only with `with_turns`, and only outermost ones.
ProfileOperations find_operations(const ProfileFile& file, std::size_t index, bool with_turns,
                                  Warnings& warnings);

}  // namespace pipesim
