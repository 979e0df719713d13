// What fits into this machine's memory, asked before it is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipesim {

// What the system says is available, or what the limits of this process and its control
// groups leave where that is less.
std::int64_t available_memory_bytes();

// What control groups leave of `most`, those around them included: `groups` as
// /proc/self/cgroup has them, of either version, mounted at `root`.
std::int64_t group_memory_bytes(std::string_view groups, const std::string& root,
                                std::int64_t most);

// What is said where memory has run out all the same.
inline constexpr const char* out_of_memory =
    "out of memory; use fewer stages, microbatches or ranks, or smaller batches";

// Throws an input error with the estimate where `bytes` exceed that. `what`
// needs the memory: "4 stages x 8 microbatches".
void check_memory(const std::string& what, double bytes);

}  // namespace pipesim
