#include "exec/transport/transport.h"

#include <fmt/format.h>

#include <cstdlib>

#include "exec/transport/mpi.h"
#include "traces/base/text.h"

namespace pipesim::exec {

Error wrong_size(std::size_t came, int from, std::size_t expected) {
  return work_error(
      fmt::format("a message of {} bytes came from rank {} where {} were expected: do all ranks "
                  "run the same command?",
                  came, from, expected));
}

std::vector<TransportInfo> known_transports() {
  return {{"mpi", "ranks are the processes of an MPI job", mpi_left_out()},
          {"local", "ranks are threads of one process", {}}};
}

std::optional<Launch> launched_by_mpi() {
  // Of Open MPI; of MPICH and those made from it; of Slurm with PMIx.
  const std::pair<const char*, const char*> variables[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"PMIX_RANK", "SLURM_NTASKS"}};
  for (const auto& [rank, ranks] : variables) {
    const char* own = std::getenv(rank);
    const char* all = std::getenv(ranks);
    if (own == nullptr || all == nullptr) continue;
    return Launch{std::atoi(own), std::atoi(all)};
  }
  return std::nullopt;
}

}  // namespace pipesim::exec
