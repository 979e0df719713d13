// Ranks candidates, and says why each loses.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/candidates.h"

namespace pipesim {

// Puts those with as many microbatches next to each other, in the order of their first; of each
// number the fastest first, of two as fast the smaller, and those left out last.
void sort_by_time(std::vector<Candidate>& candidates);

bool fits(const Candidate& candidate, std::optional<std::int64_t> memory_cap_bytes);

// The fastest with so many microbatches that fits, or, where none fits, of all. Null where all
// are left out. Expects them sorted.
const Candidate* fastest_of(const std::vector<Candidate>& candidates, int microbatches,
                            std::optional<std::int64_t> memory_cap_bytes);

// Why one is slower than the fastest, in a few words: "+4.50 ms: drain 6.00 ms longer, ...".
// Times are means over ranks, which sum to the difference of the makespans. Says of what does not
// fit by how much, and of what is on the front what it saves.
std::string why_not(const Candidate& one, const Candidate& fastest,
                    std::optional<std::int64_t> memory_cap_bytes);

}  // namespace pipesim
