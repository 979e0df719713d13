// Ranks as processes connected by TCP, on one host or several, without MPI.
// Rank 0 listens at the master's address; the others connect there, identify themselves, and get
// all addresses. Then each pair has its own connection. Connections without pipeexec's handshake,
// or without the job's token, are rejected, and ranks go on meeting. Peers are trusted after that:
// nothing is encrypted, the token neither, so the network must be trusted, too. There is no thread:
// messages progress while the rank's thread starts one, tests or waits, and the system's buffers
// drain meanwhile. Waiting sleeps until something arrives. In a build without Asio, making one is
// an input error that says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/transport/hello.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// Why this build has no TCP, or empty.
std::string tcp_left_out();

// This rank of how many, and where rank 0 listens: at that address alone, which 0.0.0.0 and ::
// make all of its host's. Other ranks listen at the address that they reach it from.
struct TcpPlace {
  int rank = 0;
  int ranks = 1;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  JobToken token{};
};

// Returns once all ranks are connected. Sends of 64 KiB or more, or of the eager limit if that is
// less, are done only when their receiver has taken them. Throws an input error if ranks contradict
// each other; a work error that names the missing ranks if some don't connect while patience lasts
// (0: forever). The destructor waits for the others to end, for 2 s.
std::unique_ptr<Transport> make_tcp_transport(const TcpPlace& place,
                                              std::optional<std::int64_t> eager_limit_bytes = {},
                                              std::chrono::nanoseconds patience = {});

}  // namespace pipesim::exec
