#include "exec/run/ranks.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "exec/run/agreement.h"
#include "exec/transport/local.h"
#include "traces/base/error.h"
#include "traces/base/threads.h"

namespace pipesim::exec {
namespace {

// The system would sometimes put two that wait for each other on one processor.
void keep_to_processor(int rank, int ranks) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (::sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < ranks) return;
  for (int processor = 0, seen = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &all) || seen++ != rank) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(processor, &own);
    ::sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

// Makes sleeps of this thread end on time, not up to 50 us late.
void wake_in_time() { ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace

void run_as_threads(int ranks, std::optional<std::int64_t> eager_limit_bytes, const RankWork& work,
                    Processors processors) {
  LocalWorld world(ranks, eager_limit_bytes);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto fail = [&](int rank, std::exception_ptr error, const Error& why) {
    errors[static_cast<std::size_t>(rank)] = std::move(error);
    world.transport(rank).fail(why);
  };
  const auto work_of = [&](int rank) {
    if (processors == Processors::one_each) keep_to_processor(rank, ranks);
    wake_in_time();
    try {
      work(world.transport(rank));
    } catch (const std::exception& thrown) {
      fail(rank, std::current_exception(), as_error(thrown));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      try {
        threads.push_back(start_thread(fmt::format("for rank {} of {}", rank, ranks),
                                       [&work_of, rank] { work_of(rank); }));
      } catch (const Error& error) {
        fail(rank, std::current_exception(), error);
        break;
      }
    }
  }
  std::exception_ptr secondary;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const PeerFailed&) {
      secondary = error;
    }
  }
  if (secondary) std::rethrow_exception(secondary);
}

std::optional<Error> run_as_process(
    Transport& transport, const RankWork& work,
    const std::function<void(const std::string& error)>& last_words) {
  wake_in_time();
  // Patience of the others ends about now, too, and a rank that has aborted has a reason: let each
  // report what it waits for.
  const auto wait_for_theirs = [] { std::this_thread::sleep_for(std::chrono::seconds(1)); };
  std::optional<Error> failure;
  try {
    work(transport);
    return std::nullopt;
  } catch (const AgreedError&) {
    throw;
  } catch (const TimedOut& error) {
    failure = error;
    last_words(error.what());
    wait_for_theirs();
  } catch (const PeerLost& error) {
    failure = error;
    last_words(error.what());
    wait_for_theirs();
  } catch (const std::exception& thrown) {
    failure = as_error(thrown);
    last_words(failure->what());
  }
  transport.fail(*failure);
  return failure;
}

}  // namespace pipesim::exec
