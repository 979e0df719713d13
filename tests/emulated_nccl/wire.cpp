#include "tests/emulated_nccl/wire.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace emulated_nccl {
namespace {

struct Address {
  // Of Linux's names that are no files.
  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  sockaddr_un value{};
  socklen_t size = 0;
};

int open_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

std::map<std::string, int>& listeners() {
  static std::map<std::string, int> all;
  return all;
}

}  // namespace

Wire::~Wire() { close(); }

void Wire::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  gone_ = true;
}

std::string Wire::listen() {
  static int count = 0;
  const std::string name =
      "emulated_nccl_" + std::to_string(::getpid()) + "_" + std::to_string(++count);
  const int listener = open_socket();
  const Address address(name);
  if (::bind(listener, address.get(), address.size) != 0 || ::listen(listener, 16) != 0) return {};
  listeners()[name] = listener;
  return name;
}

bool Wire::connect(const std::string& name, bool listens) {
  if (socket_ >= 0) return true;
  if (listens) {
    const auto found = listeners().find(name);
    if (found == listeners().end()) return false;
    socket_ = ::accept4(found->second, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return socket_ >= 0;
  }
  const Address address(name);
  const int own = open_socket();
  if (::connect(own, address.get(), address.size) == 0) {
    socket_ = own;
  } else {
    ::close(own);
  }
  return socket_ >= 0;
}

void Wire::stop_listening(const std::string& name) {
  const auto found = listeners().find(name);
  if (found == listeners().end()) return;
  ::close(found->second);
  listeners().erase(found);
}

void Wire::say(const Frame& frame, const void* payload) {
  to_say_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  if (payload != nullptr) to_say_.append(static_cast<const char*>(payload), frame.bytes);
  flush();
}

bool Wire::flush() {
  while (!to_say_.empty() && !gone_) {
    const ssize_t sent =
        ::send(socket_, to_say_.data(), to_say_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      to_say_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      break;
    } else {
      gone_ = true;
    }
  }
  return to_say_.empty() && !gone_;
}

std::optional<Frame> Wire::hear() {
  char* to = reinterpret_cast<char*>(&heard_);
  heard_bytes_ += hear_bytes(to + heard_bytes_, sizeof heard_ - heard_bytes_);
  if (heard_bytes_ < sizeof heard_) return std::nullopt;
  heard_bytes_ = 0;
  return heard_;
}

std::size_t Wire::hear_bytes(char* to, std::size_t most) {
  if (most == 0) return 0;
  const ssize_t came = ::recv(socket_, to, most, MSG_DONTWAIT);
  if (came > 0) return static_cast<std::size_t>(came);
  if (came == 0 || (errno != EAGAIN && errno != EINTR)) gone_ = true;
  return 0;
}

}  // namespace emulated_nccl
