// The links of an emulated device: messages take what costs say.
//
// Between ranks whose link has a latency or a bandwidth, what travels is when the message
// left: it is there once that and the link's time are over, however fast the transport
// below carries it, and its bytes stay where they are. Likewise between replicas, where costs
// say what their exchanges take: what comes to a rank from all of them goes one after the other.
// All other messages are the transport's own. As a transport it belongs to one rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "exec/run/emulation.h"
#include "exec/run/precise_sleep.h"
#include "exec/transport/transport.h"
#include "sim/cost/costs.h"
#include "traces/mesh.h"

namespace pipesim::exec {

class EmulatedLinks final : public Transport {
 public:
  // All outlive it. Ranks are those of the mesh, and share one CLOCK_MONOTONIC. Anchored
  // messages begin with when they left.
  EmulatedLinks(Transport& below, const Mesh& mesh, const Costs& costs, EmulationPace pace);

  // Whether there is any between ranks.
  static bool exist(const Costs& costs);

  int rank() const override { return below_.rank(); }
  int ranks() const override { return below_.ranks(); }
  std::string name() const override { return below_.name(); }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override;
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override;
  bool test(Ticket ticket) override;
  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override;
  std::string awaited(Ticket ticket) const override;
  Limits limits() const override { return below_.limits(); }
  void abandon() override;
  void fail() override { below_.fail(); }

 private:
  struct Message {
    std::int64_t left_ns = 0;
    std::array<std::byte, 8> first{};  // of its bytes
  };
  // What a ticket stands for.
  struct Entry {
    Ticket below = 0;
    bool is_open = false;   // below
    bool receives = false;  // over an emulated link
    std::span<std::byte> into;
    std::int64_t takes_ns = 0;
    std::int64_t shared_ns = 0;   // before that, on the link that messages of all replicas share
    std::int64_t arrives_ns = 0;  // once it is known
    Message message;
  };

  // What leads from one rank to another, where it is emulated.
  struct Way {
    Link link;
    bool is_shared = false;  // with all that replicas send to the receiver
  };
  std::optional<Way> way(int from, int to, int tag) const;
  Ticket open(Ticket below);
  // After the ticket below has ended.
  void settle(Entry& entry);
  bool is_there(const Entry& entry) const;
  void close(Ticket ticket) { free_.push_back(ticket); }

  Transport& below_;
  Mesh mesh_;
  const Costs& costs_;
  EmulationPace pace_;
  std::int64_t free_ns_ = 0;  // when all bytes have come that replicas have sent so far
  PreciseSleep sleep_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by ticket; what is sent stays where it is
  std::vector<Ticket> free_;
};

}  // namespace pipesim::exec
