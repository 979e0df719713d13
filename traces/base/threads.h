// Starts threads: an Error says where the system has none left, and how to mend it.
//
// Any thread may call.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "traces/base/error.h"

namespace pipesim {

// `what` it is for: "to write the checkpoint".
inline Error thread_error(std::string_view what, const std::system_error& error) {
  return work_error(
      fmt::format("cannot start a thread {}: {}; allow more processes (ulimit -u) or memory "
                  "(ulimit -v), or end other programs",
                  what, error.code().message()));
}

template <typename Work>
std::jthread start_thread(std::string_view what, Work work) {
  try {
    return std::jthread(std::move(work));
  } catch (const std::system_error& error) {
    throw thread_error(what, error);
  }
}

}  // namespace pipesim
