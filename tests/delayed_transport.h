// A transport that takes its time: what another does, later and in another
// order wherever that is allowed.
//
// test() denies, for a while, what is done, and sends and receives start only
// some calls after they were asked for; those of one route in their order.
// Time passes by calls, drawn from a seed, so nothing sleeps, and everything
// ends: wait() goes on calling.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "exec/transport/transport.h"

namespace pipesim::testing {

class DelayedTransport final : public exec::Transport {
 public:
  // `inner` outlives it. Delays are of 0 to `most` calls.
  DelayedTransport(exec::Transport& inner, unsigned seed, int most = 20);

  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  std::string name() const override { return inner_.name(); }

  exec::Ticket send(int to, int tag, std::span<const std::byte> bytes) override;
  exec::Ticket receive(int from, int tag, std::span<std::byte> bytes) override;
  bool test(exec::Ticket ticket) override;
  std::size_t wait_any_until(std::span<const exec::Ticket> tickets, Time until) override;
  void abandon() override;
  void fail(const Error& why) override { inner_.fail(why); }

  // How often something was held back, or denied when it was done.
  std::int64_t delays() const { return delays_; }

 private:
  struct Message {
    bool sends = false;
    int peer = 0;
    int tag = 0;
    std::span<const std::byte> out;
    std::span<std::byte> in;
    int held = 0;     // calls until it starts
    int denials = 0;  // calls for which test() denies that it is done
    bool started = false;
    exec::Ticket inner = 0;
  };
  using Route = std::tuple<bool, int, int>;  // sends, peer, tag

  template <typename Work>
  auto guarded(Work work);  // abandons everything where `work` throws
  exec::Ticket open(Message message);
  void start(Message& message);
  void pass_time();
  int draw() { return std::uniform_int_distribution<int>(0, most_)(random_); }

  exec::Transport& inner_;
  std::mt19937 random_;
  int most_;
  std::vector<Message> messages_;  // by ticket
  std::vector<exec::Ticket> free_;
  std::map<Route, std::deque<exec::Ticket>> held_;
  std::int64_t delays_ = 0;
};

}  // namespace pipesim::testing
