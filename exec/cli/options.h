// From flags to the training and its machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/cli/checkpoint_options.h"
#include "exec/cli/input_options.h"
#include "exec/run/training.h"
#include "exec/transport/launch.h"
#include "exec/transport/tcp.h"
#include "sim/flags/replica_flags.h"
#include "sim/flags/schedule_choice.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

struct Flags {
  ScheduleFlags schedule;
  InputFlags input;
  Flag model, layout, data, micro_batch_size, sequence_length;
  ReplicaFlags replicas;
  Flag global_batch, reduce;
  Flag tensor_parallel, tensor_overlap;
  bool sequence_parallel = false;
  Flag iterations, warmup, accumulate, seed, learning_rate, recompute, attention, precision;
  Flag device, costs, pace, faults, transport, eager_limit, timeout;
  Flag rank, ranks, master, token;
  CheckpointFlags checkpoints;
  Flag trace, layout_picture;
  bool verify = false;
  bool json = false;
  bool quiet = false;
  bool list_devices = false;
  bool list_ranks = false;
};

void add_all_flags(CommandLine& program, Flags& flags);

// Throws an input error if an output file is also an input, or the output of another flag.
void check_files(const Flags& flags);

// How ranks are made.
struct Ranks {
  std::string transport;
  bool by_mpi = false;
  bool linked = false;          // their devices, too
  std::optional<TcpPlace> tcp;  // if connected by TCP
  int count = 1;                // of threads, if they are threads of one process
  std::optional<std::int64_t> eager_limit_bytes;
  std::int64_t patience_ns = 0;  // per wait; 0: forever
};
// Without --transport: MPI under mpirun and srun, TCP under torchrun, else threads of
// this process.
std::string transport_of(const Flags& flags, const std::optional<Launch>& launch);
// Throws an input error for an unknown or unavailable transport, which lists the available ones.
Ranks choose_ranks(const Flags& flags, const std::optional<Launch>& launch);

// For this many ranks; throws an input error if replicas don't divide them.
Mesh mesh_of(const Flags& flags, int ranks);

// The training on this many ranks. Anything wrong with it is an
// input error, found before anything of its size is built.
struct Task {
  TrainingJob training;
  std::string title;  // of the schedule, as in a sentence
  // For each virtual stage of an emulated device, if its costs are by layer.
  std::vector<int> emulated_layers = {};
  std::vector<std::string> notes = {};  // about flags and the model's file, printed by rank 0
};
Task make_task(const Flags& flags, int ranks);

}  // namespace pipesim::exec
