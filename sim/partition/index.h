// Ranks, stages and layers are counted by int; lists by std::size_t.
#pragma once

#include <cstddef>

namespace pipesim {

inline std::size_t index(int i) { return static_cast<std::size_t>(i); }

}  // namespace pipesim
