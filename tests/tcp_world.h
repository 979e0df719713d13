// Ranks that TCP connects, as threads of a test, and ports for them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exec/transport/tcp.h"
#include "exec/transport/transport.h"

namespace pipesim::testing {

// A port of the loopback that nobody else is given meanwhile, and that a process may yet
// listen at.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  std::uint16_t number() const { return number_; }
  std::string master() const { return "127.0.0.1:" + std::to_string(number_); }

 private:
  int socket_;
  std::uint16_t number_ = 0;
};

// Someone who is no rank: a connection to that port.
class Stranger {
 public:
  // Tries until somebody listens.
  explicit Stranger(std::uint16_t port);
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void say(const std::string& bytes) const;

 private:
  int socket_;
};

// Does `work` for every rank on a thread of its own, each with a transport of its own, as
// run_as_threads() does.
void run_over_tcp(int ranks, std::optional<std::int64_t> eager_limit_bytes,
                  const std::function<void(exec::Transport&)>& work);

}  // namespace pipesim::testing
