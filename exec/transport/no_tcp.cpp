// Replaces tcp.cpp in a build without Asio.
#include "exec/transport/tcp.h"
#include "traces/base/error.h"

namespace pipesim::exec {

std::string tcp_left_out() {
  return "this build has no Asio: install libasio-dev, and build again";
}

std::unique_ptr<Transport> make_tcp_transport(const TcpPlace& /*place*/,
                                              std::optional<std::int64_t> /*eager_limit_bytes*/,
                                              std::chrono::nanoseconds /*patience*/) {
  throw input_error("--transport tcp: " + tcp_left_out());
}

}  // namespace pipesim::exec
