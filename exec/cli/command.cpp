#include "exec/cli/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <exception>
#include <thread>
#include <vector>

#include "exec/cli/report.h"
#include "exec/device/devices.h"
#include "exec/run/agreement.h"
#include "exec/run/session.h"
#include "exec/transport/local.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

// Beyond this the results differ from one rank's by more than rounding.
constexpr double largest_relative_error = 1e-5;

// Where what rank 0 prints ends up. A launcher gives its processes pseudo
// terminals and pipes of its own; what counts is what it writes to itself.
class Destination {
 public:
  Destination(int descriptor, bool launched) : descriptor_(descriptor) {
    if (!launched) return;
    const std::string path = fmt::format("/proc/{}/fd/{}", ::getppid(), descriptor);
    opened_ = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    descriptor_ = opened_;  // where it can't be opened: no terminal
  }
  ~Destination() {
    if (opened_ >= 0) ::close(opened_);
  }
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  int opened_ = -1;
};

// On one rank, from flags to the report.
void run_rank(const Flags& flags, Transport& transport, bool launched) {
  const bool first = transport.rank() == 0;
  Task task;
  std::unique_ptr<Device> device;
  std::optional<OutputFile> trace;
  agree(transport, [&] {
    task = make_task(flags, transport.ranks());
    device = make_device(flags.device.value_or("cpu"));
    if (first && flags.trace) trace.emplace(*flags.trace, flags.trace->ends_with(".gz"));
  });
  const Training& training = task.training;
  std::optional<Progress> progress;
  const Destination standard_error(STDERR_FILENO, launched);
  if (first) progress.emplace(standard_error.descriptor());
  const OnIteration on_iteration = [&](int iteration, double loss) {
    progress->show(fmt::format("iteration {} of {}, loss {:.4f}", iteration + 1,
                               training.warmup + training.iterations, loss));
  };
  const RunResult result =
      run_session(training, *device, transport, on_iteration, trace ? &*trace : nullptr);
  if (!first) return;
  progress.reset();
  if (trace) trace->commit();
  if (flags.json) {
    print(result_json(task, result));
  } else if (!flags.quiet) {
    const Destination output(STDOUT_FILENO, launched);
    print(report(task, result, terminal_of(output.descriptor())));
    if (trace) print(fmt::format("Trace: {} (open it in ui.perfetto.dev)\n", trace->path()));
  }
  if (result.verification && result.verification->max_rel_error > largest_relative_error) {
    throw work_error(fmt::format("--verify: {} differs from one rank's by {:.3g} of its size",
                                 result.verification->worst, result.verification->max_rel_error));
  }
}

// Where there are as many processors as ranks, each thread keeps to one of its
// own; the system would now and then put two that wait for each other on one.
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

// The ranks as threads. Their errors come back to the caller: the first, by
// rank, that is not merely about another's.
void run_threads(const Flags& flags, const Ranks& ranks) {
  LocalWorld world(ranks.count, ranks.eager_limit_bytes);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks.count));
  const auto work = [&](int rank) {
    keep_to_processor(rank, ranks.count);
    Transport& transport = world.transport(rank);
    try {
      run_rank(flags, transport, false);
    } catch (...) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      transport.fail();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks.count; ++rank) threads.emplace_back(work, rank);
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

}  // namespace

void run_command(const Flags& flags, const std::optional<Launch>& launch) {
  if (flags.list_devices) {
    if (!launch || launch->rank == 0) print(device_list());
    return;
  }
  const Ranks ranks = choose_ranks(flags, launch);
  if (!ranks.by_mpi) {
    run_threads(flags, ranks);
    return;
  }
  const auto transport = make_mpi_transport(ranks.eager_limit_bytes);
  run_rank(flags, *transport, launch.has_value());
}

}  // namespace pipesim::exec
