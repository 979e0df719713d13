// A training job one rank of which is struck by a signal, as by kill:
//   job_fault --rank R --signal S --at N [--timeout MS] [--trace FILE] [--port P] [--replicas D]
//             [--shards T]
// strikes rank R when it is about to send its N-th result, of which the first 4 or 8 go along
// the pipeline, those of one stage, and others to replicas or tensor-parallel ranks; at 0, when it
// takes part in the optimizer step that ends its first iteration. The job is one of MPI; with a
// port, one that TCP connects there, whose ranks the environment tells as torchrun does.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exec/device/devices.h"
#include "exec/run/ranks.h"
#include "exec/run/session.h"
#include "exec/transport/collectives.h"
#include "exec/transport/launch.h"
#include "exec/transport/mpi.h"
#include "exec/transport/tcp.h"
#include "sim/schedule/family.h"
#include "tests/forwarding_transport.h"
#include "tests/local_run.h"

namespace {

using namespace pipesim;

// Strikes its own process at a send.
class StruckTransport final : public testing::ForwardingTransport {
 public:
  StruckTransport(exec::Transport& inner, int signal, std::int64_t at, std::int64_t sends)
      : ForwardingTransport(inner), signal_(signal), at_(at), sends_(sends) {}

  exec::Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    const bool is_result = tag >= exec::first_free_tag;
    if (is_result) ++sent_;
    const bool in_reduction = at_ == 0 && !is_result && sent_ == sends_;
    if (in_reduction || (is_result && sent_ == at_)) std::raise(signal_);
    return ForwardingTransport::send(to, tag, bytes);
  }

 private:
  int signal_;
  std::int64_t at_;
  std::int64_t sends_;  // of results, an iteration
  std::int64_t sent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string_view, std::int64_t> given;
  std::string trace_path;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view value = argv[i + 1];
    if (std::string_view(argv[i]) == "--trace") trace_path = value;
    std::from_chars(value.data(), value.data() + value.size(), given[argv[i]]);
  }
  std::unique_ptr<exec::Transport> job;
  if (given.contains("--port")) {
    const auto launch = exec::find_launch(std::getenv).value();
    job = exec::make_tcp_transport(
        {launch.rank, launch.ranks, "127.0.0.1", static_cast<std::uint16_t>(given["--port"])});
  } else {
    job = exec::make_mpi_transport();
  }
  const int replicas = given.contains("--replicas") ? static_cast<int>(given["--replicas"]) : 1;
  const int shards = given.contains("--shards") ? static_cast<int>(given["--shards"]) : 1;
  const Schedule schedule =
      generate({.name = "1f1b", .ranks = job->ranks() / replicas / shards, .microbatches = 4});
  exec::TrainingJob training = testing::tiny_training(schedule, testing::tiny_model(6));
  training.verify = false;
  training.data_parallel = replicas;
  training.tensor_parallel = shards;
  training.record_details = !trace_path.empty();
  training.iterations = 3;
  const auto failure = run_as_process(
      *job,
      [&](exec::Transport& own) {
        std::int64_t sends = 0;
        for (const Action& action : training.program.actions[own.rank() / replicas / shards]) {
          sends += is_send(action.kind) ? 1 : 0;
        }
        const bool struck = own.rank() == given["--rank"];
        StruckTransport transport(own, static_cast<int>(given["--signal"]),
                                  struck ? given["--at"] : -1, sends);
        if (given.contains("--timeout")) {
          transport.set_patience(std::chrono::milliseconds(given["--timeout"]));
        }
        std::optional<OutputFile> trace;
        if (own.rank() == 0 && !trace_path.empty()) trace.emplace(trace_path);
        const auto device = exec::make_device("cpu");
        run_session(
            training, *device, transport, [](int, const std::optional<exec::Outcome>&) {},
            trace ? &*trace : nullptr);
        if (trace) trace->commit();
      },
      [&](const std::string& error) {
        fmt::print(stderr, "job_fault: rank {}: {}\n", job->rank(), error);
      });
  if (failure) return failure->exit_status();
  if (job->rank() == 0) fmt::print("done\n");
}
