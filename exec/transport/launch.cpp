#include "exec/transport/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr int highest_port = 65'535;

// A variable's integer value, at least `least`; nothing if it isn't set.
std::optional<int> number_in(const Environment& environment, const char* name, int least,
                             int most) {
  const char* set = environment(name);
  if (set == nullptr) return std::nullopt;
  const std::string_view text(set);
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw input_error(fmt::format("the environment's {} is {}, not a whole number from {}", name,
                                  quote(text), least));
  }
  return value;
}

std::optional<int> rank_in(const Environment& environment, const char* name) {
  return number_in(environment, name, 0, static_cast<int>(max_count));
}

std::optional<Launch> launch_by(const Environment& environment, const std::string& launcher,
                                const char* rank, const char* ranks, const char* local_rank) {
  const auto own = rank_in(environment, rank);
  const auto all = number_in(environment, ranks, 1, static_cast<int>(max_count));
  if (!own || !all) return std::nullopt;
  if (*own >= *all) {
    throw input_error(fmt::format("the environment's {} is {} and its {} {}; ranks count from 0",
                                  rank, *own, ranks, *all));
  }
  return Launch{launcher, *own, *all, rank_in(environment, local_rank)};
}

}  // namespace

std::optional<Launch> find_launch(const Environment& environment) {
  const auto slurm = [&]() -> std::optional<Launch> {
    const bool job = environment("SLURM_JOB_ID") != nullptr;
    if (job && environment("SLURM_STEP_ID") == nullptr) return std::nullopt;  // its script
    return launch_by(environment, "srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID");
  };
  if (auto own = launch_by(environment, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK")) {
    return own;
  }
  if (auto own = launch_by(environment, "mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")) {
    if (own->local_rank) return own;
    auto step = slurm();  // srun speaks to MPI by these variables, too
    if (step && step->rank == own->rank && step->ranks == own->ranks) return step;
    return own;
  }
  if (auto own = launch_by(environment, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK")) return own;
  return slurm();
}

std::optional<Master> find_master(const Environment& environment) {
  const char* host = environment("MASTER_ADDR");
  const auto port = number_in(environment, "MASTER_PORT", 1, highest_port);
  if (host == nullptr || !port) return std::nullopt;
  const char* shared = environment("TORCHELASTIC_USE_AGENT_STORE");
  const bool taken = shared != nullptr && std::string_view(shared) == "True";
  return Master{host, static_cast<std::uint16_t>(taken ? *port % highest_port + 1 : *port)};
}

std::string find_token(const Environment& environment, const std::optional<Launch>& launch) {
  if (const char* own = environment("PIPEEXEC_TOKEN")) {
    return parse_token(own, "the environment's PIPEEXEC_TOKEN");
  }
  const auto name_by = [&](const char* variable) {
    const char* name = environment(variable);
    const std::string_view text = name == nullptr ? "" : name;
    return std::string(text.substr(text.size() - std::min(text.size(), JobToken().size())));
  };
  if (!launch) return {};
  if (launch->launcher == "mpirun") return name_by("PMIX_NAMESPACE");
  if (launch->launcher == "torchrun") {
    const std::string name = name_by("TORCHELASTIC_RUN_ID");
    return name == "none" ? "" : name;  // torchrun's default
  }
  const std::string job = name_by("SLURM_JOB_ID");
  return job.empty() ? "" : fmt::format("{}.{}", job, name_by("SLURM_STEP_ID"));
}

std::string parse_token(std::string_view text, std::string_view where) {
  const std::size_t most = JobToken().size();
  if (text.empty() || text.size() > most) {
    throw input_error(
        fmt::format("{}: a token has 1 to {} characters, this one {}", where, most, text.size()));
  }
  return std::string(text);
}

Master parse_master(std::string_view text, std::string_view where) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int port = 0;
  if (colon != std::string_view::npos) {
    const auto [end, status] =
        std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
    if (status != std::errc() || end != text.data() + text.size()) port = 0;
  }
  if (host.empty() || port < 1 || port > highest_port) {
    throw input_error(
        fmt::format("{}: {} is not HOST:PORT, such as node1:29500", where, quote(text)));
  }
  return {std::string(host), static_cast<std::uint16_t>(port)};
}

}  // namespace pipesim::exec
