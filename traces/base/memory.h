// What fits into this machine's memory, asked before it is taken.
#pragma once

#include <cstdint>
#include <string>

namespace pipesim {

// What the system says is available, or the limit of this process or its
// control group where that is less.
std::int64_t available_memory_bytes();

// Throws an input error with the estimate where `bytes` exceed that. `what`
// needs the memory: "4 stages x 8 microbatches".
void check_memory(const std::string& what, double bytes);

}  // namespace pipesim
