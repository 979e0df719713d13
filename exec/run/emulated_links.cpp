#include "exec/run/emulated_links.h"

#include <algorithm>
#include <cstring>

#include "exec/run/clock.h"
#include "exec/transport/collectives.h"

namespace pipesim::exec {
namespace {

bool takes_time(const Link& link) { return link.latency_ns > 0 || link.bytes_per_second; }

}  // namespace

EmulatedLinks::EmulatedLinks(Transport& below, const Mesh& mesh, const Costs& costs,
                             EmulationPace pace)
    : below_(below), mesh_(mesh), costs_(costs), pace_(pace) {
  if (below.patience()) set_patience(*below.patience());
}

bool EmulatedLinks::exist(const Costs& costs) {
  return takes_time(costs.p2p) || (costs.replicas && costs.replicas->takes_time()) ||
         std::ranges::any_of(costs.edges, [](const auto& edge) { return takes_time(edge.second); });
}

std::optional<EmulatedLinks::Direction> EmulatedLinks::way(int from, int to, int tag) const {
  if (tag < first_free_tag) return std::nullopt;
  const Coordinates one = mesh_.coordinates_of(from);
  const Coordinates other = mesh_.coordinates_of(to);
  if (one.data == other.data) {
    const Link& link =
        costs_.link(static_cast<int>(one.pipeline), static_cast<int>(other.pipeline));
    return takes_time(link) ? std::optional(Direction{link, false}) : std::nullopt;
  }
  if (!costs_.replicas || !costs_.replicas->takes_time()) return std::nullopt;
  return Direction{{costs_.replicas->latency_ns, costs_.replicas->bytes_per_second}, true};
}

Ticket EmulatedLinks::open(Ticket below) {
  if (free_.empty()) {
    free_.push_back(entries_.size());
    entries_.push_back(std::make_unique<Entry>());
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  Entry& entry = *entries_[ticket];
  entry = {};
  entry.below = below;
  entry.is_open = true;
  return ticket;
}

Ticket EmulatedLinks::send(int to, int tag, std::span<const std::byte> bytes) {
  const auto own = way(rank(), to, tag);
  if (!own) return open(below_.send(to, tag, bytes));
  const Ticket ticket = open(0);
  Message& message = entries_[ticket]->message;
  std::ranges::copy(bytes.first(std::min(bytes.size(), message.first.size())),
                    message.first.begin());
  message.left_ns = Clock::monotonic_ns();
  if (!own->is_shared && pace_ == EmulationPace::anchored) {
    std::memcpy(&message.left_ns, message.first.data(), sizeof message.left_ns);
  }
  entries_[ticket]->below = below_.send(to, tag, std::as_bytes(std::span(&message, 1)));
  return ticket;
}

Ticket EmulatedLinks::receive(int from, int tag, std::span<std::byte> bytes) {
  const auto own = way(from, rank(), tag);
  if (!own) return open(below_.receive(from, tag, bytes));
  const Ticket ticket = open(0);
  Entry& entry = *entries_[ticket];
  entry.receives = true;
  entry.into = bytes;
  entry.takes_ns = own->link.latency_ns;
  (own->is_shared ? entry.shared_ns : entry.takes_ns) +=
      costs_.occupied_ns(own->link, static_cast<std::int64_t>(bytes.size()));
  entry.below = below_.receive(from, tag, std::as_writable_bytes(std::span(&entry.message, 1)));
  return ticket;
}

void EmulatedLinks::settle(Entry& entry) {
  entry.is_open = false;
  if (!entry.receives) return;
  const auto& first = entry.message.first;
  std::copy_n(first.begin(), std::min(entry.into.size(), first.size()), entry.into.begin());
  std::int64_t come_ns = entry.message.left_ns;
  if (entry.shared_ns > 0) come_ns = free_ns_ = std::max(free_ns_, come_ns) + entry.shared_ns;
  entry.arrives_ns = come_ns + entry.takes_ns;
}

bool EmulatedLinks::is_there(const Entry& entry) const {
  return !entry.is_open && (!entry.receives || Clock::monotonic_ns() >= entry.arrives_ns);
}

bool EmulatedLinks::test(Ticket ticket) {
  Entry& entry = *entries_[ticket];
  if (entry.is_open && below_.test(entry.below)) settle(entry);
  if (!is_there(entry)) return false;
  close(ticket);
  return true;
}

std::size_t EmulatedLinks::wait_any_until(std::span<const Ticket> tickets, Time until) {
  std::vector<Ticket> below;
  std::vector<std::size_t> places;
  for (;;) {
    below.clear();
    places.clear();
    std::optional<std::int64_t> next_ns;  // the next arrival
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      const Entry& entry = *entries_[tickets[i]];
      if (is_there(entry)) {
        close(tickets[i]);
        return i;
      }
      if (entry.is_open) {
        below.push_back(entry.below);
        places.push_back(i);
      } else {
        next_ns = std::min(next_ns.value_or(entry.arrives_ns), entry.arrives_ns);
      }
    }
    // steady_clock is CLOCK_MONOTONIC.
    Time wake = until;
    if (next_ns) {
      wake = std::min(wake, Time(std::chrono::nanoseconds(sleep_.wake_ns(*next_ns))));
    }
    if (below.empty()) {
      if (next_ns && wake < until) {
        sleep_.until(*next_ns);
        continue;
      }
      return tickets.size();
    }
    const std::size_t done = below_.wait_any_until(below, wake);
    if (done < below.size()) {
      settle(*entries_[tickets[places[done]]]);
    } else if (wake == until) {
      return tickets.size();
    } else {
      sleep_.learn(wake.time_since_epoch().count());
    }
  }
}

std::string EmulatedLinks::awaited(Ticket ticket) const {
  const Entry& entry = *entries_[ticket];
  return entry.is_open ? below_.awaited(entry.below) : Transport::awaited(ticket);
}

void EmulatedLinks::abandon() {
  below_.abandon();
  entries_.clear();
  free_.clear();
}

}  // namespace pipesim::exec
