// Ranks as the processes of an MPI job.
//
// Sends and receives are MPI_Isend (MPI_Issend from the eager limit on) and
// MPI_Irecv on a communicator of the project's own; waiting polls with a pause
// that grows from 5 to 50 us, so that more ranks than cores don't starve each
// other. A message much larger than its receiver expects must not come: Open
// MPI 4.1.4 then writes beyond the buffer before it reports the size. In a build
// without MPI, making one is an input error that says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// Why there is no MPI in this build, or empty.
std::string mpi_left_out();

// MPI's start waits for the other ranks, and can't be interrupted. Where it takes longer
// than `patience`, another thread calls give_up(), which ends the process.
struct StartLimit {
  std::chrono::nanoseconds patience{0};  // 0: for ever
  std::function<void()> give_up;
};

// Starts MPI, once a process, and ends it when destroyed, which waits for the
// other ranks. Without an eager limit MPI's own decides when a send is done.
std::unique_ptr<Transport> make_mpi_transport(std::optional<std::int64_t> eager_limit_bytes = {},
                                              const StartLimit& limit = {});

}  // namespace pipesim::exec
