// Seeds for random draws, as given by flags.
#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim::cli {

// A whole number of 64 bits, 0 or more.
std::uint64_t parse_seed(std::string_view text, std::string_view where);

}  // namespace pipesim::cli
