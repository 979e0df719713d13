// A transport that passes everything on to another: a base for those that
// meddle with one call.
#pragma once

#include "exec/transport/transport.h"

namespace pipesim::testing {

class ForwardingTransport : public exec::Transport {
 public:
  // `inner` outlives it.
  explicit ForwardingTransport(exec::Transport& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  std::string name() const override { return inner_.name(); }
  exec::Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    return inner_.send(to, tag, bytes);
  }
  exec::Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    return inner_.receive(from, tag, bytes);
  }
  bool test(exec::Ticket ticket) override { return inner_.test(ticket); }
  std::size_t wait_any_until(std::span<const exec::Ticket> tickets, Time until) override {
    return inner_.wait_any_until(tickets, until);
  }
  std::string awaited(exec::Ticket ticket) const override { return inner_.awaited(ticket); }
  Limits limits() const override { return inner_.limits(); }
  void abandon() override { inner_.abandon(); }
  void fail(const Error& why) override { inner_.fail(why); }

 private:
  exec::Transport& inner_;
};

}  // namespace pipesim::testing
