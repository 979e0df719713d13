#include "exec/transport/linked.h"

#include <algorithm>
#include <utility>

#include "exec/transport/back_off.h"

namespace pipesim::exec {
namespace {

class LinkedSums final : public LibrarySums {
 public:
  LinkedSums(LinkedTransport& transport, DeviceSums& sums, Device& device)
      : transport_(transport), sums_(sums), device_(device) {}

  Ticket reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts) override {
    return transport_.ticket_of(device_, sums_.reduce_scatter(numbers, counts, device_.mark()));
  }
  Ticket all_reduce(float* numbers, std::int64_t count) override {
    return transport_.ticket_of(device_, sums_.all_reduce(numbers, count, device_.mark()));
  }

 private:
  LinkedTransport& transport_;
  DeviceSums& sums_;
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

Ticket LinkedTransport::ticket_of(Device& device, Mark mark) {
  const auto free = std::ranges::find_if(sums_, [](const std::optional<Sum>& sum) { return !sum; });
  const auto place = static_cast<Ticket>(free - sums_.begin());
  if (free == sums_.end()) sums_.emplace_back();
  sums_[place] = Sum{&device, mark};
  return first_of_sums + place;
}

bool LinkedTransport::test(Ticket ticket) {
  if (!is_of_sum(ticket)) return control_.test(ticket);
  std::optional<Sum>& sum = sums_[ticket - first_of_sums];
  if (!sum->device->has_passed(sum->mark)) {
    link_->check();
    return false;
  }
  sum.reset();
  return true;
}

std::size_t LinkedTransport::wait_any_until(std::span<const Ticket> tickets, Time until) {
  if (std::ranges::none_of(tickets, is_of_sum)) return control_.wait_any_until(tickets, until);
  for (BackOff pause;; pause.pause()) {
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      if (test(tickets[i])) return i;
    }
    if (until != Time::max() && std::chrono::steady_clock::now() >= until) return tickets.size();
  }
}

std::string LinkedTransport::awaited(Ticket ticket) const {
  return is_of_sum(ticket) ? "the others of a sum" : control_.awaited(ticket);
}

void LinkedTransport::abandon() {
  sums_.clear();
  control_.abandon();
}

}  // namespace pipesim::exec
