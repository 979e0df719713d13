#include "tests/tcp_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace pipesim::testing {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

}  // namespace

// Bound, but not listening: with this option, another socket may then listen there.
ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in at = loopback(0);
  socklen_t size = sizeof at;
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&at), size) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    throw std::runtime_error("no port");
  }
  number_ = ntohs(at.sin_port);
}

ReservedPort::~ReservedPort() { ::close(socket_); }

Stranger::Stranger(std::uint16_t port) : socket_(-1) {
  const sockaddr_in at = loopback(port);
  for (;;) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return;
    ::close(socket_);
    std::this_thread::yield();
  }
}

Stranger::~Stranger() { ::close(socket_); }

void Stranger::say(const std::string& bytes) const {
  [[maybe_unused]] const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void run_over_tcp(int ranks, std::optional<std::int64_t> eager_limit_bytes,
                  const std::function<void(exec::Transport&)>& work) {
  const ReservedPort port;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const auto own = exec::make_tcp_transport({rank, ranks, "127.0.0.1", port.number()},
                                                    eager_limit_bytes);
          try {
            work(*own);
          } catch (const Error& error) {
            errors[static_cast<std::size_t>(rank)] = std::current_exception();
            own->fail(error);
          }
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    }
  }
  std::exception_ptr secondary;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const exec::PeerFailed&) {
      secondary = error;
    }
  }
  if (secondary) std::rethrow_exception(secondary);
}

}  // namespace pipesim::testing
