// The ranks of a group as a transport, which numbers them by their index in the group: the ranks of
// one pipeline, or those that hold the same stages in all replicas. Messages and tags are those of
// the transport below: two groups that have two ranks in common share tags between these. Like that
// one, it belongs to one rank and its thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "exec/transport/transport.h"
#include "traces/mesh.h"

namespace pipesim::exec {

class GroupTransport final : public Transport {
 public:
  // `below` must outlive it; its rank is in the group.
  GroupTransport(Transport& below, const RankGroup& ranks);

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(ranks_.count); }
  std::string name() const override { return below_.name(); }
  DeviceLink* link() override { return below_.link(); }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    return below_.send(on_below(to), tag, bytes);
  }
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    return below_.receive(on_below(from), tag, bytes);
  }
  bool test(Ticket ticket) override { return below_.test(ticket); }
  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override {
    return below_.wait_any_until(tickets, until);
  }
  std::string awaited(Ticket ticket) const override { return below_.awaited(ticket); }
  Limits limits() const override { return below_.limits(); }
  // Affect everything below, and all ranks below.
  void abandon() override { below_.abandon(); }
  void fail(const Error& why) override { below_.fail(why); }

  bool has_library_sums() const override { return below_.has_library_sums(); }
  // Over all of the group's ranks.
  std::unique_ptr<LibrarySums> own_library_sums(Device& device) {
    return below_.library_sums(ranks_, device);
  }
  std::unique_ptr<LibraryGathers> own_library_gathers(Device& device) {
    return below_.library_gathers(ranks_, device);
  }

  // The number of a group's rank in the transport below.
  int on_below(int rank) const { return static_cast<int>(ranks_[rank]); }

 private:
  Transport& below_;
  RankGroup ranks_;
  int rank_ = 0;
};

}  // namespace pipesim::exec
