// The links of an emulated device: the costs determine the times of messages.
// Between ranks whose link has a latency or a bandwidth, a message carries only its departure time:
// it has arrived once the link's time has passed since then, however fast the transport below is,
// and its bytes are not sent. The same applies between replicas if costs have `replicas`: messages
// to a rank from all of them go one after the other. All other messages are the transport's own. As
// a transport it belongs to one rank.
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
  // All must outlive it. Ranks are those of the mesh, and share one CLOCK_MONOTONIC. Anchored
  // messages begin with their departure time.
  EmulatedLinks(Transport& below, const Mesh& mesh, const Costs& costs, EmulationPace pace);

  // Whether costs have any between ranks.
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
  void fail(const Error& why) override { below_.fail(why); }

 private:
  struct Message {
    std::int64_t left_ns = 0;
    std::array<std::byte, 8> first{};  // the first of its bytes
  };
  // A ticket's state.
  struct Entry {
    Ticket below = 0;
    bool is_open = false;   // below
    bool receives = false;  // over an emulated link
    std::span<std::byte> into;
    std::int64_t takes_ns = 0;
    std::int64_t shared_ns = 0;   // before that, on the link shared by messages of all replicas
    std::int64_t arrives_ns = 0;  // once it is known
    Message message;
  };

  // The emulated link from one rank to another.
  struct Direction {
    Link link;
    bool is_shared = false;  // with all messages of replicas to the receiver
  };
  std::optional<Direction> way(int from, int to, int tag) const;
  Ticket open(Ticket below);
  // Call after the ticket below has ended.
  void settle(Entry& entry);
  bool is_there(const Entry& entry) const;
  void close(Ticket ticket) { free_.push_back(ticket); }

  Transport& below_;
  Mesh mesh_;
  const Costs& costs_;
  EmulationPace pace_;
  std::int64_t free_ns_ = 0;  // when all bytes sent by replicas so far have arrived
  PreciseSleep sleep_;
  std::vector<std::unique_ptr<Entry>>
      entries_;  // by ticket; stable addresses, since they are sent from
  std::vector<Ticket> free_;
};

}  // namespace pipesim::exec
