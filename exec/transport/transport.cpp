#include "exec/transport/transport.h"

#include <fmt/format.h>

#include "exec/device/devices.h"
#include "exec/transport/mpi.h"
#include "exec/transport/tcp.h"
#include "traces/base/text.h"

namespace pipesim::exec {

Error wrong_size(std::size_t came, int from, std::size_t expected) {
  return work_error(
      fmt::format("a message of {} bytes came from rank {} where {} were expected: do all ranks "
                  "run the same command?",
                  came, from, expected));
}

std::string a_message_from(int rank) { return fmt::format("a message from rank {}", rank); }
std::string a_taker_at(int rank) { return fmt::format("rank {} to take a message", rank); }

std::size_t Transport::wait_any(std::span<const Ticket> tickets) {
  const Time until = patience_ ? std::chrono::steady_clock::now() + *patience_ : Time::max();
  const std::size_t done = wait_any_until(tickets, until);
  if (done < tickets.size()) return done;
  lose_patience(tickets.front());
}

void Transport::lose_patience(Ticket ticket) {
  const std::string what = awaited(ticket);
  abandon();
  throw TimedOut(fmt::format("waited {} for {}; --timeout allows no more",
                             format_time(patience_->count()), what));
}

std::vector<TransportInfo> known_transports() {
  std::vector<TransportInfo> known;
  for (const char* name : {"mpi", "tcp", "local", "nccl", "rccl"})
    known.push_back(*find_transport(name));
  return known;
}

std::optional<TransportInfo> find_transport(const std::string& name) {
  if (name == "mpi") return {{name, "ranks are the processes of an MPI job", mpi_left_out()}};
  if (name == "tcp") return {{name, "ranks are processes connected by TCP", tcp_left_out()}};
  if (name == "local") return {{name, "ranks are threads of one process", {}}};
  if (!links_devices(name)) return std::nullopt;
  TransportInfo info{name, {}, mpi_left_out()};
  if (!info.left_out.empty()) return info;
  try {
    info.what = fmt::format("processes of an MPI job, results from GPU to GPU by {}",
                            find_link_library(name).name());
  } catch (const Error& error) {
    info.left_out = error.what();
  }
  return info;
}

}  // namespace pipesim::exec
