// Checks that an allocation fits into this machine's memory, before it is made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipesim {

// The memory that the system reports as available, or less if the limits of this process
// and its control groups leave less.
std::int64_t available_memory_bytes();

// What control groups and their parents leave of `most`: `groups` as in
// /proc/self/cgroup, of either version, mounted at `root`.
std::int64_t group_memory_bytes(std::string_view groups, const std::string& root,
                                std::int64_t most);

// The message if memory runs out anyway.
inline constexpr const char* out_of_memory =
    "out of memory; use fewer stages, microbatches or ranks, or smaller batches";

// So much is always taken to be there: asking the system, or saying what needs it, takes longer
// than a problem of that size.
inline constexpr double little_memory = 16 << 20;

// Throws an input error with the estimate if `bytes` exceed what is available. `what`
// needs the memory: "4 stages x 8 microbatches".
void check_memory(const std::string& what, double bytes);

}  // namespace pipesim
