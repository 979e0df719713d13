#include "sim/plan/for_all.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "traces/base/threads.h"

namespace pipesim {

void for_all(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::size_t failed_at = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t most = std::min(static_cast<std::size_t>(std::max(1, threads)), count);
    try {
      while (others.size() + 1 < most) others.push_back(start_thread("to plan", run));
    } catch (const Error&) {  // fewer do all of it, too
    }
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pipesim
