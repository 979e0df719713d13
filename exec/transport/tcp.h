// Ranks as processes that TCP connects, on one host or several; no MPI is needed.
//
// Rank 0 listens at the master's address; the others come there, tell who they are, and get
// to know each other. Then each pair has a connection of its own. Whoever knocks without
// the words of a pipeexec is sent away. Peers are trusted after that: nothing is encrypted,
// so the network must be one's own.
//
// There is no thread of its own: messages move while the rank's thread starts one, tests or
// waits, and what the system's buffers hold moves meanwhile. Waiting sleeps until something
// comes. In a build without Asio, making one is an input error that says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

// Why there is no TCP in this build, or empty.
std::string tcp_left_out();

// Which rank of how many this is, and where rank 0 listens. With an address of the loopback
// all listen there alone, otherwise at all addresses of their hosts.
struct TcpPlace {
  int rank = 0;
  int ranks = 1;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
};

// Returns once all ranks are there. Sends of 64 KiB or more, or of the eager limit where
// that is less, are done only when their receiver has taken them. An input error where
// ranks contradict each other; a work error where some don't come while patience lasts (0:
// for ever), which names them. When destroyed it waits for the others to end, for 2 s.
std::unique_ptr<Transport> make_tcp_transport(const TcpPlace& place,
                                              std::optional<std::int64_t> eager_limit_bytes = {},
                                              std::chrono::nanoseconds patience = {});

}  // namespace pipesim::exec
