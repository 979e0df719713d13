#include "exec/transport/linked.h"

#include <algorithm>
#include <utility>

#include "exec/transport/back_off.h"

namespace pipesim::exec {
namespace {

class LinkedSums final : public LibrarySums {
 public:
  LinkedSums(LinkedTransport& transport, DeviceGroup& sums, Device& device)
      : transport_(transport), sums_(sums), device_(device) {}

  Ticket reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts) override {
    return transport_.ticket_of(device_, sums_.reduce_scatter(numbers, counts, device_.mark()));
  }
  Ticket all_reduce(float* numbers, std::int64_t count) override {
    return transport_.ticket_of(device_, sums_.all_reduce(numbers, count, device_.mark()));
  }

 private:
  LinkedTransport& transport_;
  DeviceGroup& sums_;
  Device& device_;
};

class LinkedGathers final : public LibraryGathers {
 public:
  LinkedGathers(LinkedTransport& transport, DeviceGroup& group, Device& device)
      : transport_(transport), group_(group), device_(device) {}

  Ticket all_gather(void* memory, const std::vector<std::int64_t>& bytes) override {
    return transport_.ticket_of(device_, group_.all_gather(memory, bytes, device_.mark()));
  }

 private:
  LinkedTransport& transport_;
  DeviceGroup& group_;
  Device& device_;
};

}  // namespace

LinkedTransport::LinkedTransport(Transport& control, std::unique_ptr<DeviceLink> link,
                                 std::string name)
    : control_(control), link_(std::move(link)), name_(std::move(name)) {
  if (control.patience()) set_patience(*control.patience());
}

std::unique_ptr<LibrarySums> LinkedTransport::library_sums(const RankGroup& /*group*/,
                                                           Device& device) {
  return std::make_unique<LinkedSums>(*this, *link_->sums(), device);
}

std::unique_ptr<LibraryGathers> LinkedTransport::library_gathers(const RankGroup& /*group*/,
                                                                 Device& device) {
  DeviceGroup* gathers = link_->gathers();
  if (gathers == nullptr) return nullptr;
  return std::make_unique<LinkedGathers>(*this, *gathers, device);
}

Ticket LinkedTransport::ticket_of(Device& device, Mark mark) {
  const auto free =
      std::ranges::find_if(collectives_, [](const std::optional<Collective>& one) { return !one; });
  const auto place = static_cast<Ticket>(free - collectives_.begin());
  if (free == collectives_.end()) collectives_.emplace_back();
  collectives_[place] = Collective{&device, mark};
  return first_of_collectives + place;
}

bool LinkedTransport::test(Ticket ticket) {
  if (!is_of_collective(ticket)) return control_.test(ticket);
  std::optional<Collective>& own = collectives_[ticket - first_of_collectives];
  if (!own->device->has_passed(own->mark)) {
    link_->check();
    return false;
  }
  own.reset();
  return true;
}

std::size_t LinkedTransport::wait_any_until(std::span<const Ticket> tickets, Time until) {
  if (std::ranges::none_of(tickets, is_of_collective))
    return control_.wait_any_until(tickets, until);
  for (BackOff pause;; pause.pause()) {
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      if (test(tickets[i])) return i;
    }
    if (until != Time::max() && std::chrono::steady_clock::now() >= until) return tickets.size();
  }
}

std::string LinkedTransport::awaited(Ticket ticket) const {
  return is_of_collective(ticket) ? "the others of a collective" : control_.awaited(ticket);
}

void LinkedTransport::abandon() {
  collectives_.clear();
  control_.abandon();
}

}  // namespace pipesim::exec
