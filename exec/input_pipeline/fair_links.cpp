#include "exec/input_pipeline/fair_links.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipesim::exec {

FairLinks::FairLinks(const std::vector<InputLink>& links) {
  for (const InputLink& link : links) {
    rates_.push_back(static_cast<double>(link.bytes_per_second) / 1e9);
  }
}

FairLinks::Place FairLinks::add(std::span<const std::uint32_t> links, std::int64_t bytes,
                                std::int64_t start_ns) {
  pass_until(start_ns);
  Transfer transfer;
  transfer.links = links;
  transfer.left = static_cast<double>(bytes);
  const Place place = transfers_.insert(transfers_.end(), transfer);
  share_out();
  return place;
}

void FairLinks::remove(Place transfer) {
  transfers_.erase(transfer);
  share_out();
}

std::int64_t FairLinks::end_ns(const Transfer& transfer) const {
  // A link shared by many may take longer than 64 bits can hold; that never matters.
  return transfer.end_ns.value_or(
      passed_ns_ + std::llround(std::clamp(transfer.left / transfer.rate, 0.0, 0x1p62)));
}

void FairLinks::pass_until(std::int64_t time_ns) {
  for (;;) {
    std::int64_t next_ns = std::max(time_ns, passed_ns_);
    for (const Transfer& transfer : transfers_) {
      if (!transfer.end_ns) next_ns = std::min(next_ns, end_ns(transfer));
    }
    bool any_ended = false;
    for (Transfer& transfer : transfers_) {
      if (transfer.end_ns) continue;
      if (end_ns(transfer) <= next_ns) {
        transfer.end_ns = next_ns;
        any_ended = true;
      } else {
        transfer.left -= transfer.rate * static_cast<double>(next_ns - passed_ns_);
      }
    }
    passed_ns_ = next_ns;
    if (!any_ended) return;
    share_out();
  }
}

// The most contended link gives each of its transfers an equal share; the rest of other links is
// shared in the same way.
void FairLinks::share_out() {
  std::vector<double> left = rates_;
  std::vector<int> users(rates_.size());
  std::vector<Transfer*> open;
  for (Transfer& transfer : transfers_) {
    if (transfer.end_ns) continue;
    open.push_back(&transfer);
    for (const std::uint32_t link : transfer.links) ++users[link];
  }
  while (!open.empty()) {
    double share = std::numeric_limits<double>::max();
    std::uint32_t fullest = 0;
    for (std::uint32_t link = 0; link < left.size(); ++link) {
      if (users[link] == 0 || left[link] / users[link] >= share) continue;
      share = left[link] / users[link];
      fullest = link;
    }
    std::erase_if(open, [&](Transfer* transfer) {
      if (std::ranges::count(transfer->links, fullest) == 0) return false;
      transfer->rate = share;
      for (const std::uint32_t link : transfer->links) {
        --users[link];
        left[link] -= share;
      }
      return true;
    });
  }
}

}  // namespace pipesim::exec
