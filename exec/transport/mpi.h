// Ranks as the processes of an MPI job.
// Sends and receives are MPI_Isend (MPI_Issend from the eager limit on) and MPI_Irecv on a private
// communicator; waiting polls with a pause that grows from 5 to 50 us, so that more ranks than
// cores don't starve each other. Messages must not be much larger than their receiver expects: Open
// MPI 4.1.4 then writes beyond the buffer before it reports the size. In a build without MPI,
// making one is an input error that says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// Why this build has no MPI, or empty.
std::string mpi_left_out();

// Whether this MPI is Open MPI and nothing tells it of other ranks: under srun it then ends the
// process, at length, unless it was built for Slurm's own PMI.
bool mpi_needs_pmix();

// MPI's start waits for the other ranks, and can't be interrupted. If it takes longer than
// `patience`, another thread calls give_up(), which must end the process.
struct StartLimit {
  std::chrono::nanoseconds patience{0};  // 0: forever
  std::function<void()> give_up;
};

// Starts MPI, at most once per process, and finalizes it when destroyed, which waits for the other
// ranks. Without an eager limit MPI's own determines when a send is done.
std::unique_ptr<Transport> make_mpi_transport(std::optional<std::int64_t> eager_limit_bytes = {},
                                              const StartLimit& limit = {});

}  // namespace pipesim::exec
