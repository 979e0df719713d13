// Independent work for several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace pipesim {

// Does all of 0 .. count - 1, in any order, on the calling thread and others, as many as can be
// started, and returns when they are done. The error of the lowest number is thrown, once all
// others are done.
void for_all(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace pipesim
