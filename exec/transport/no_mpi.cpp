// Replaces mpi.cpp in a build without MPI.
#include "exec/transport/mpi.h"
#include "traces/base/error.h"

namespace pipesim::exec {

std::string mpi_left_out() {
  return "this build has no MPI: install libopenmpi-dev and openmpi-bin, and build again";
}

bool mpi_needs_pmix() { return false; }

std::unique_ptr<Transport> make_mpi_transport(std::optional<std::int64_t> /*eager_limit_bytes*/,
                                              const StartLimit& /*limit*/) {
  throw input_error("--transport mpi: " + mpi_left_out());
}

}  // namespace pipesim::exec
