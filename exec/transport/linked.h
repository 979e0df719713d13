// A transport whose ranks' devices are linked: control messages go over another transport, results
// from device to device, and so do collectives if the link has some.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/link.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

class LinkedTransport final : public Transport {
 public:
  // `control` and the link's device must outlive it.
  LinkedTransport(Transport& control, std::unique_ptr<DeviceLink> link, std::string name);

  int rank() const override { return control_.rank(); }
  int ranks() const override { return control_.ranks(); }
  std::string name() const override { return name_; }
  DeviceLink* link() override { return link_.get(); }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    return control_.send(to, tag, bytes);
  }
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    return control_.receive(from, tag, bytes);
  }
  bool test(Ticket ticket) override;
  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override;
  std::string awaited(Ticket ticket) const override;
  bool has_library_sums() const override { return link_->sums() != nullptr; }
  // `group` must be one that the link was made with.
  std::unique_ptr<LibrarySums> library_sums(const RankGroup& group, Device& device) override;
  std::unique_ptr<LibraryGathers> library_gathers(const RankGroup& group, Device& device) override;
  void abandon() override;
  void fail(const Error& why) override { control_.fail(why); }

  // A ticket that ends once the link's device has passed the mark of a collective.
  Ticket ticket_of(Device& device, Mark mark);

 private:
  struct Collective {
    Device* device;
    Mark mark;
  };
  // Tickets from here on are collectives', smaller ones messages'.
  static constexpr Ticket first_of_collectives = Ticket{1} << 62U;
  static bool is_of_collective(Ticket ticket) { return ticket >= first_of_collectives; }

  Transport& control_;
  std::unique_ptr<DeviceLink> link_;
  std::string name_;
  std::vector<std::optional<Collective>> collectives_;  // by ticket
};

}  // namespace pipesim::exec
