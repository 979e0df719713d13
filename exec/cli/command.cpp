#include "exec/cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <span>

#include "exec/cli/destination.h"
#include "exec/cli/input_command.h"
#include "exec/cli/layout.h"
#include "exec/cli/rank_list.h"
#include "exec/cli/report.h"
#include "exec/cli/signal_thread.h"
#include "exec/cli/stop_signal.h"
#include "exec/device/devices.h"
#include "exec/run/agreement.h"
#include "exec/run/channels.h"
#include "exec/run/clock_sync.h"
#include "exec/run/ranks.h"
#include "exec/run/session.h"
#include "exec/supervise/progress_file.h"
#include "exec/transport/collectives.h"
#include "exec/transport/mpi.h"
#include "exec/transport/tcp.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/layout_picture.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

// Rank 0's report once all ranks are done.
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
  if (result.verification && !result.verification->is_right(task.training.library_sums)) {
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

// Called by all ranks. The launcher's local rank, since the launcher knows which devices each may
// see: containers may share a host, but not its GPUs. Without one, the number of lower ranks on the
// same host.
int rank_within_host(Transport& transport, const std::optional<int>& told) {
  const SharedClocks hosts = find_shared_clocks(transport, Clock());
  const auto own = hosts.begin() + transport.rank();
  return told.value_or(static_cast<int>(std::count(hosts.begin(), own, *own)));
}

// Called by all ranks; rank 0 gets the facts of each.
std::vector<RankFacts> gather_facts(Transport& transport, const RankFacts& own) {
  const auto gather_text = [&](const std::string& text) {
    std::vector<std::string> all;
    for (const Bytes& bytes : gather(transport, std::as_bytes(std::span(text)))) {
      all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return all;
  };
  const std::vector<std::string> hosts = gather_text(own.host);
  const std::vector<std::string> devices = gather_text(own.device);
  const std::vector<int> local_ranks = gather_value(transport, own.local_rank);
  std::vector<RankFacts> all;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    all.push_back({hosts[rank], local_ranks[rank], devices[rank]});
  }
  return all;
}

std::string this_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Called by all ranks; rank 0 prints.
void list_ranks(const Flags& flags, const Ranks& ranks, Transport& transport, const Device& device,
                int local_rank) {
  const std::string name = device_name(flags.device.value_or("cpu"), local_rank);
  // A GPU's description doesn't identify it; an emulated device's is the CPU's.
  const std::string what = names_a_gpu(name)         ? name + ", " + device.description()
                           : name == emulated_device ? name
                                                     : device.description();
  const RankFacts own{this_host(), local_rank, what};
  const std::vector<RankFacts> all = gather_facts(transport, own);
  if (transport.rank() != 0) return;
  const Mesh mesh = mesh_of(flags, transport.ranks());
  print(flags.json ? rank_list_json(mesh, all, ranks.transport)
                   : rank_list(mesh, all, ranks.transport));
  finish_printing();
}

// Runs one rank, from flags to the report. Ranks agree that all could set up, and finally on the
// outcome.
void run_rank(const Flags& flags, const Ranks& ranks, Transport& control,
              const std::optional<Launch>& launch, std::atomic<int>& stopped_by) {
  const bool launched = ranks.by_mpi && launch;
  const bool first = control.rank() == 0;
  Task task;
  std::unique_ptr<Device> device;
  std::optional<OutputFile> trace;
  std::unique_ptr<ProgressFile> counted;
  std::unique_ptr<Transport> linked;
  agree(control, [&] {
    if (flags.list_ranks) mesh_of(flags, control.ranks());
    if (!flags.list_ranks || flags.schedule.schedule) task = make_task(flags, control.ranks());
  });
  agree_on(control, "--transport", ranks.transport);
  // All ranks ask, since they may have different devices.
  const int local_rank =
      rank_within_host(control, launch && !flags.rank ? launch->local_rank : std::nullopt);
  agree(control, [&] {
    device = make_device(flags.device.value_or("cpu"), local_rank);
    if (flags.list_ranks) return;
    if (first && flags.trace) trace.emplace(*flags.trace, flags.trace->ends_with(".gz"));
    if (first) counted = asked_progress_file();
    if (first) draw_layout(flags, task, launched);
    if (!first) return;
    for (const std::string& note : task.notes) complain(fmt::format("pipeexec: note: {}\n", note));
  });
  if (flags.list_ranks) return list_ranks(flags, ranks, control, *device, local_rank);
  TrainingJob& training = task.training;
  Checkpointing checkpointing;
  if (training.saves || !training.resume.empty()) {
    agree_on(control, "the command line", training.fingerprint());
    checkpointing.start = find_start(training, control, warn_of_damage);
    if (checkpointing.start) training.first_iteration = checkpointing.start->state.iteration;
  }
  if (training.saves) checkpointing.is_to_stop = was_told_to_stop;
  if (ranks.linked) {
    linked = link_devices(control, *device, find_link_library(ranks.transport), ranks.transport,
                          training);
  }
  Transport& transport = linked ? *linked : control;
  std::optional<Progress> progress;
  const Destination standard_error(STDERR_FILENO, launched);
  if (first) progress.emplace(standard_error.descriptor());
  const OnIteration on_iteration = [&](int iteration, const std::optional<Outcome>& outcome) {
    const std::string loss =
        training.costs || !outcome ? "" : fmt::format(", loss {:.4f}", outcome->loss);
    if (counted) counted->note(iteration, iteration + 1);
    progress->show(fmt::format("iteration {} of {}{}", iteration + 1, training.end(), loss));
  };
  const RunResult result = run_session(training, *device, transport, on_iteration,
                                       trace ? &*trace : nullptr, {}, checkpointing);
  progress.reset();
  if (result.stopped_at) {
    stopped_by = tell_stop(transport, *result.stopped_at, "iteration", training.saves->folder);
    return;
  }
  agree(transport, [&] {
    if (first) tell(flags, task, result, trace, launched);
  });
}

std::unique_ptr<Transport> connect(const Ranks& ranks) {
  return make_tcp_transport(*ranks.tcp, ranks.eager_limit_bytes,
                            std::chrono::nanoseconds(ranks.patience_ns));
}

// Throws an error, the same on all ranks, if MPI doesn't know its launcher.
std::unique_ptr<Transport> start_mpi(const Ranks& ranks, const std::optional<Launch>& launch) {
  const StartLimit limit{
      std::chrono::nanoseconds(ranks.patience_ns), [&] {
        complain(fmt::format(
            "pipeexec: {}waited {} for MPI to start; do all ranks that mpirun "
            "starts run pipeexec?\n",
            launch ? fmt::format("rank {}: ", launch->rank) : "", format_time(ranks.patience_ns)));
        std::_Exit(1);
      }};
  auto transport = make_mpi_transport(ranks.eager_limit_bytes, limit);
  if (launch && (launch->rank != transport->rank() || launch->ranks != transport->ranks())) {
    throw AgreedError(
        Error::Cause::input,
        fmt::format("{0} has started this as rank {1} of {2}, but to MPI it is rank {3} of {4}; "
                    "start it with mpirun{5}, or give --transport tcp",
                    launch->launcher, launch->rank, launch->ranks, transport->rank(),
                    transport->ranks(), launch->launcher == "srun" ? " or srun --mpi=pmix" : ""));
  }
  return transport;
}

}  // namespace

void run_command(const Flags& flags, const std::optional<Launch>& launch) {
  const SignalThread signal_thread;
  if (links_devices(flags.transport.value_or(""))) prepare_for_links();
  if (flags.list_devices) {
    if (!launch || launch->rank == 0) print(device_list());
    return;
  }
  const Ranks ranks = choose_ranks(flags, launch);
  std::optional<StopSignal> stop_signal;
  if (flags.checkpoints.folder) stop_signal.emplace();
  std::atomic<int> stopped_by = 0;  // the signal that all ranks were stopped by, or 0
  std::optional<InputCommand> input;
  if (flags.input.pipeline) input.emplace(flags, ranks, launch);
  const RankWork work = [&](Transport& transport) {
    if (ranks.patience_ns > 0) transport.set_patience(std::chrono::nanoseconds(ranks.patience_ns));
    if (input) {
      input->run_rank(transport, stopped_by);
    } else {
      run_rank(flags, ranks, transport, launch, stopped_by);
    }
  };
  if (!ranks.by_mpi && !ranks.tcp) {
    run_as_threads(ranks.count, ranks.eager_limit_bytes, work,
                   input ? Processors::shared : Processors::one_each);
    if (stopped_by != 0) std::exit(128 + stopped_by);
    return;
  }
  // With --transport mpi it is tried: Open MPI may have been built for Slurm's own PMI.
  if (!flags.transport && launch && launch->launcher == "srun" && mpi_needs_pmix()) {
    throw AgreedError(
        Error::Cause::input,
        "srun has started this without --mpi=pmix, by which Open MPI finds its ranks; "
        "add that, or give --transport tcp");
  }
  std::unique_ptr<Transport> transport = ranks.tcp ? connect(ranks) : start_mpi(ranks, launch);
  std::optional<Error> failure;
  try {
    failure = run_as_process(*transport, work, [&](const std::string& error) {
      complain(fmt::format("pipeexec: rank {}: {}\n", transport->rank(), printable(error)));
    });
  } catch (const AgreedError& error) {
    // Rank 0 tells it while the others still wait for it: a launcher may end all once one has
    // failed.
    if (!launch || flags.rank || transport->rank() == 0) {
      complain(fmt::format("pipeexec: {}\n", printable(error.what())));
    }
    failure = error;
  }
  transport.reset();
  if (failure) std::exit(failure->exit_status());  // everything is printed
  if (stopped_by != 0) std::exit(128 + stopped_by);
}

void pass_on(const Error& error, const Flags& flags, const Launch& launch) {
  if (dynamic_cast<const AgreedError*>(&error) != nullptr) return;
  if (transport_of(flags, launch) == "tcp") {
    complain(fmt::format("pipeexec: rank {}: {}\n", launch.rank, printable(error.what())));
    std::exit(error.exit_status());
  }
  if (!mpi_left_out().empty()) return;
  // If rank 0 has found the same, it ends the job while this one waits for it.
  try {
    agree(*make_mpi_transport(), [&] { throw error; });
  } catch (const AgreedError& agreed) {
    std::exit(agreed.exit_status());
  }
}

}  // namespace pipesim::exec
