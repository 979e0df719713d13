// A transport whose ranks' devices are linked: control goes by another
// transport, results from device to device.
#pragma once

#include <memory>
#include <string>

#include "exec/device/link.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

class LinkedTransport final : public Transport {
 public:
  // `control` outlives it, and so does the link's device.
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
  bool test(Ticket ticket) override { return control_.test(ticket); }
  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override {
    return control_.wait_any_until(tickets, until);
  }
  std::string awaited(Ticket ticket) const override { return control_.awaited(ticket); }
  bool has_library_sums() const override { return control_.has_library_sums(); }
  std::unique_ptr<LibrarySums> library_sums(const RankGroup& group) override {
    return control_.library_sums(group);
  }
  void abandon() override { control_.abandon(); }
  void fail() override { control_.fail(); }

 private:
  Transport& control_;
  std::unique_ptr<DeviceLink> link_;
  std::string name_;
};

}  // namespace pipesim::exec
