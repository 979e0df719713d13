#include "exec/cli/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "exec/cli/layout.h"
#include "exec/cli/report.h"
#include "exec/device/devices.h"
#include "exec/run/agreement.h"
#include "exec/run/channels.h"
#include "exec/run/clock_sync.h"
#include "exec/run/ranks.h"
#include "exec/run/session.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/layout_picture.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

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

// What rank 0 says once all ranks are done.
void tell(const Flags& flags, const Task& task, const RunResult& result,
          std::optional<OutputFile>& trace, bool launched) {
  if (trace) trace->commit();
  if (flags.json) {
    print(result_json(task, result));
  } else if (!flags.quiet) {
    const Destination output(STDOUT_FILENO, launched);
    print(report(task, result, terminal_of(output.descriptor())));
    if (trace)
      print(fmt::format("Trace: {} (open it in ui.perfetto.dev)\n", printable(trace->path())));
  }
  finish_printing();
  // The order of sums is the same, and so must the bits be.
  if (result.verification && !result.verification->bitwise) {
    throw work_error(fmt::format("--verify: {} differs from one rank's by {:.3g} of its size",
                                 result.verification->worst, result.verification->max_rel_error));
  }
}

// Before anything is trained.
void draw_layout(const Flags& flags, const Task& task, bool launched) {
  LayoutOutput output(flags.layout_picture, flags.json);
  if (!output.is_wanted()) return;
  const Destination destination(STDOUT_FILENO, launched);
  output.show(layout_of(task), terminal_of(destination.descriptor()), !flags.quiet);
  if (!flags.json && !flags.quiet) print(output.told());
  finish_printing();
}

// How many lower ranks this one shares its host with.
int rank_within_host(Transport& transport) {
  const SharedClocks hosts = find_shared_clocks(transport, Clock());
  const auto own = hosts.begin() + transport.rank();
  return static_cast<int>(std::count(hosts.begin(), own, *own));
}

// On one rank, from flags to the report. Ranks agree that all could set up,
// and in the end on how it went.
void run_rank(const Flags& flags, const Ranks& ranks, Transport& control, bool launched) {
  const bool first = control.rank() == 0;
  Task task;
  std::unique_ptr<Device> device;
  std::optional<OutputFile> trace;
  std::unique_ptr<Transport> linked;
  agree(control, [&] { task = make_task(flags, control.ranks()); });
  agree_on(control, "--transport", ranks.transport);
  // All ranks ask, since not all need have the same device.
  const int local_rank = rank_within_host(control);
  agree(control, [&] {
    device = make_device(flags.device.value_or("cpu"), local_rank);
    if (first && flags.trace) trace.emplace(*flags.trace, flags.trace->ends_with(".gz"));
    if (first) draw_layout(flags, task, launched);
  });
  const TrainingJob& training = task.training;
  if (ranks.linked) {
    linked = link_devices(control, *device, find_link_library(ranks.transport), ranks.transport,
                          training);
  }
  Transport& transport = linked ? *linked : control;
  std::optional<Progress> progress;
  const Destination standard_error(STDERR_FILENO, launched);
  if (first) progress.emplace(standard_error.descriptor());
  const OnIteration on_iteration = [&](int iteration, const Outcome& outcome) {
    const std::string loss = training.costs ? "" : fmt::format(", loss {:.4f}", outcome.loss);
    progress->show(fmt::format("iteration {} of {}{}", iteration + 1,
                               training.warmup + training.iterations, loss));
  };
  const RunResult result =
      run_session(training, *device, transport, on_iteration, trace ? &*trace : nullptr);
  progress.reset();
  agree(transport, [&] {
    if (first) tell(flags, task, result, trace, launched);
  });
}

}  // namespace

void run_command(const Flags& flags, const std::optional<Launch>& launch) {
  if (links_devices(flags.transport.value_or(""))) prepare_for_links();
  if (flags.list_devices) {
    if (!launch || launch->rank == 0) print(device_list());
    return;
  }
  const Ranks ranks = choose_ranks(flags, launch);
  const bool launched = ranks.by_mpi && launch;
  const RankWork work = [&](Transport& transport) {
    if (ranks.patience_ns > 0) transport.set_patience(std::chrono::nanoseconds(ranks.patience_ns));
    run_rank(flags, ranks, transport, launched);
  };
  if (!ranks.by_mpi) {
    run_as_threads(ranks.count, ranks.eager_limit_bytes, work);
    return;
  }
  const StartLimit limit{
      std::chrono::nanoseconds(ranks.patience_ns), [&] {
        complain(fmt::format(
            "pipeexec: {}waited {} for MPI to start; do all ranks that mpirun "
            "starts run pipeexec?\n",
            launch ? fmt::format("rank {}: ", launch->rank) : "", format_time(ranks.patience_ns)));
        std::_Exit(1);
      }};
  const auto transport = make_mpi_transport(ranks.eager_limit_bytes, limit);
  run_as_process(*transport, work, [&](const std::string& error) {
    complain(fmt::format("pipeexec: rank {}: {}\n", transport->rank(), printable(error)));
  });
}

void pass_on(const Error& error) {
  if (dynamic_cast<const AgreedError*>(&error) != nullptr || !mpi_left_out().empty()) return;
  // Where rank 0 has found the same, it ends the job while this waits for it.
  try {
    agree(*make_mpi_transport(), [&] { throw error; });
  } catch (const AgreedError&) {
  }
}

}  // namespace pipesim::exec
