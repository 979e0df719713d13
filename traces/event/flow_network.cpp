#include "traces/event/flow_network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>

#include "traces/base/rate.h"

namespace pipesim {
namespace {

using Real = long double;
__extension__ using Service = __int128;  // in units of service_unit

constexpr Real ns_per_second = 1e9L;
constexpr int service_bits = 60;         // after the binary point
constexpr Real service_unit = 0x1p-60L;  // bytes

// Rounding to nearest is cheap in extended precision, any other way must switch the processor's
// mode.
std::int64_t floor_of(Real value) {
  const std::int64_t nearest = std::llrint(value);
  return static_cast<Real>(nearest) > value ? nearest - 1 : nearest;
}
std::int64_t ceil_of(Real value) { return -floor_of(-value); }

// Between service and bytes, in two halves.
constexpr int half = 62;

Real bytes_in(Service service) {
  const auto high = static_cast<std::int64_t>(service >> half);
  const auto low = static_cast<std::int64_t>(service & ((Service{1} << half) - 1));
  return (static_cast<Real>(high) * 0x1p62L + static_cast<Real>(low)) * service_unit;
}

Service to_service(Real bytes) {
  const Real units = bytes / service_unit;
  const std::int64_t high = std::llrint(units * 0x1p-62L);
  const std::int64_t low = std::llrint(units - static_cast<Real>(high) * 0x1p62L);
  return (Service{high} << half) + low;
}

// How far above a whole nanosecond an end may be and still count as it: the rounding errors of
// `length_ns` of flow at `rate`, and of the service so far.
Real tolerance(Real length_ns, Real rate) {
  return 1e-12L + length_ns * 1e-17L + 4 * service_unit * ns_per_second / rate;
}

}  // namespace

LinkId FlowNetwork::add_link(std::int64_t bytes_per_second) {
  assert(bytes_per_second > 0);
  links_.emplace_back().bytes_per_second = bytes_per_second;
  return static_cast<LinkId>(links_.size() - 1);
}

RouteId FlowNetwork::add_route(const std::vector<LinkId>& links) {
  assert(!links.empty());
  const auto [at, is_new] = route_of_links_.emplace(links, static_cast<RouteId>(routes_.size()));
  if (is_new) routes_.emplace_back().links = links;
  return at->second;
}

double FlowNetwork::load(LinkId link) const {
  Real sum = 0;
  for (const RouteId id : links_[link].routes) {
    sum += routes_[id].rate * static_cast<Real>(routes_[id].flows.size());
  }
  return static_cast<double>(sum);
}

void FlowNetwork::start(std::uint32_t key, RouteId id, std::int64_t bytes, std::int64_t now_ns) {
  assert(bytes > 0);
  Route& route = routes_[id];
  const Instant now{now_ns, 0};
  if (route.flows.empty()) {
    for (const LinkId link : route.links) links_[link].routes.push_back(id);
    route.served = 0;
    route.rate = 0;
    route.since = now;
  } else {
    advance(route, now);
  }
  route.flows.push_back(
      {route.served + (static_cast<Service>(bytes) << service_bits), started_++, key});
  std::ranges::push_heap(route.flows, std::greater<>());
  collect(id);
  find_rates();
  apply_rates(now);
  set_alarms();
}

void FlowNetwork::wake(const Alarm& alarm, std::vector<std::uint32_t>& finished) {
  if (routes_[alarm.route].alarm_version != alarm.version) return;
  routes_[alarm.route].alarm_ns = no_alarm;
  collect(alarm.route);
  // Flows that end within the same nanosecond free their links one after the
  // other, in continuous time.
  const auto end_of = [&](const Route& route) {
    return static_cast<Real>(route.since.ns - alarm.time_ns) + route.end_fraction;
  };
  for (;;) {
    const Route* first = nullptr;
    for (const RouteId id : joined_routes_) {
      const Route& route = routes_[id];
      if (route.end_ns > alarm.time_ns) continue;
      if (first == nullptr || end_of(route) < end_of(*first)) first = &route;
    }
    if (first == nullptr) break;
    const Real end = end_of(*first);
    const std::int64_t whole = floor_of(first->end_fraction);
    Instant at{first->since.ns + whole, first->end_fraction - static_cast<Real>(whole)};
    if (at.fraction <= tolerance(first->end_fraction, first->rate)) at.fraction = 0;
    if (at.ns >= alarm.time_ns) at = {alarm.time_ns, 0};
    for (const RouteId id : joined_routes_) {
      Route& route = routes_[id];
      const bool ends =
          route.end_ns <= alarm.time_ns && end_of(route) <= end + tolerance(0, first->rate);
      if (ends) end_flows(route, id, at, finished);
    }
    std::erase_if(joined_routes_, [&](RouteId id) { return routes_[id].flows.empty(); });
    find_rates();
    apply_rates(at);
  }
  set_alarms();
}

// Ends the flows of a route that have been served in full at `at`.
void FlowNetwork::end_flows(Route& route, RouteId id, const Instant& at,
                            std::vector<std::uint32_t>& finished) {
  const Service all = route.flows.front().end;
  // All bytes sent have arrived, to the accuracy of the arithmetic.
  assert(std::abs(bytes_in(all - route.served - given(route, at))) <=
         2 * route.rate / ns_per_second * tolerance(route.end_fraction, route.rate) + 1e-9L);
  route.served = all;
  route.since = at;
  while (!route.flows.empty() && route.flows.front().end <= all) {
    finished.push_back(route.flows.front().key);
    std::ranges::pop_heap(route.flows, std::greater<>());
    route.flows.pop_back();
  }
  if (route.flows.empty()) {
    for (const LinkId link : route.links) std::erase(links_[link].routes, id);
    route.alarm_ns = no_alarm;
    ++route.alarm_version;
  } else {
    find_end(route);  // its rate may be unchanged
  }
}

// Finds all links and routes that a chain of shared links joins to a route.
void FlowNetwork::collect(RouteId route) {
  ++search_;
  joined_links_.clear();
  joined_routes_.clear();
  const auto meet_links_of = [&](RouteId id) {
    if (routes_[id].seen == search_) return;
    routes_[id].seen = search_;
    joined_routes_.push_back(id);
    for (const LinkId link : routes_[id].links) {
      if (links_[link].seen == search_) continue;
      links_[link].seen = search_;
      joined_links_.push_back(link);
    }
  };
  meet_links_of(route);
  for (std::size_t i = 0; i < joined_links_.size(); ++i) {
    for (const RouteId id : links_[joined_links_[i]].routes) meet_links_of(id);
  }
}

// Progressive filling: the link with the smallest fair share fills first and fixes the rate of its
// flows; the others share the rest.
void FlowNetwork::find_rates() {
  if (joined_routes_.empty()) return;
  if (joined_routes_.size() == 1) {  // alone, it has all of its narrowest link
    Route& route = routes_[joined_routes_.front()];
    std::int64_t least = links_[route.links.front()].bytes_per_second;
    for (const LinkId id : route.links) least = std::min(least, links_[id].bytes_per_second);
    route.new_rate = static_cast<Real>(least) / static_cast<Real>(route.flows.size());
    return;
  }
  const auto fair_share = [&](const Link& link) {
    return link.spare / static_cast<Real>(link.unfixed);
  };
  for (const LinkId id : joined_links_) {
    links_[id].spare = static_cast<Real>(links_[id].bytes_per_second);
    links_[id].unfixed = 0;
  }
  for (const RouteId id : joined_routes_) {
    routes_[id].fixed = false;
    for (const LinkId link : routes_[id].links) links_[link].unfixed += routes_[id].flows.size();
  }
  tightest_.clear();
  for (const LinkId id : joined_links_) {
    if (links_[id].unfixed > 0) tightest_.emplace_back(fair_share(links_[id]), id);
  }
  std::ranges::make_heap(tightest_, std::greater<>());
  while (!tightest_.empty()) {
    std::ranges::pop_heap(tightest_, std::greater<>());
    const auto [queued, id] = tightest_.back();
    tightest_.pop_back();
    Link& link = links_[id];
    if (link.unfixed == 0) continue;
    // Shares only grow as others are fixed: a link whose share has grown since it was queued is
    // queued again.
    const Real share = fair_share(link);
    if (share > queued) {
      tightest_.emplace_back(share, id);
      std::ranges::push_heap(tightest_, std::greater<>());
      continue;
    }
    for (const RouteId route : link.routes) {
      if (!routes_[route].fixed) fix(routes_[route], share);
    }
  }
#ifndef NDEBUG
  for (const LinkId id : joined_links_) {
    Real sum = 0;
    for (const RouteId route : links_[id].routes) {
      sum += routes_[route].new_rate * static_cast<Real>(routes_[route].flows.size());
    }
    assert(sum <= static_cast<Real>(links_[id].bytes_per_second) * (1 + 1e-9L) &&
           "a link carries more than it can");
  }
#endif
}

void FlowNetwork::fix(Route& route, Real rate) {
  route.fixed = true;
  route.new_rate = rate;
  const Real all = rate * static_cast<Real>(route.flows.size());
  for (const LinkId id : route.links) {
    links_[id].spare = std::max(links_[id].spare - all, Real{0});
    links_[id].unfixed -= route.flows.size();
  }
}

// From `at` on, flows cross their links at the rates just found.
void FlowNetwork::apply_rates(const Instant& at) {
  for (const RouteId id : joined_routes_) {
    Route& route = routes_[id];
    if (route.new_rate != route.rate) {
      advance(route, at);
      route.rate = route.new_rate;
      const auto is_own = [&](LinkId link) {
        return static_cast<Real>(links_[link].bytes_per_second) == route.rate;
      };
      const auto own = std::ranges::find_if(route.links, is_own);
      route.whole_rate = own == route.links.end() ? 0 : links_[*own].bytes_per_second;
    }
    find_end(route);
  }
}

// The service of each flow of the route since then.
FlowNetwork::Service FlowNetwork::given(const Route& route, const Instant& at) {
  if (route.rate == 0) return 0;  // its first flow starts
  const Real length_ns =
      static_cast<Real>(at.ns - route.since.ns) + (at.fraction - route.since.fraction);
  return to_service(route.rate * length_ns / ns_per_second);
}

void FlowNetwork::advance(Route& route, const Instant& at) {
  route.served += given(route, at);
  route.since = at;
}

void FlowNetwork::find_end(Route& route) {
  const Service left = std::max(route.flows.front().end - route.served, Service{0});
  const Real bytes = bytes_in(left);
  route.end_fraction = route.since.fraction + bytes * ns_per_second / route.rate;
  const bool in_whole_bytes = left >> service_bits << service_bits == left;
  if (route.whole_rate > 0 && route.since.fraction == 0 && in_whole_bytes) {
    const auto whole = static_cast<std::int64_t>(left >> service_bits);
    route.end_ns = route.since.ns + occupied_ns(whole, route.whole_rate);
  } else {
    const Real last = route.end_fraction - tolerance(route.end_fraction, route.rate);
    route.end_ns = route.since.ns + ceil_of(std::max(last, Real{0}));
  }
}

void FlowNetwork::set_alarms() {
  for (const RouteId id : joined_routes_) {
    Route& route = routes_[id];
    if (route.end_ns == route.alarm_ns) continue;
    route.alarm_ns = route.end_ns;
    alarms_.push_back({route.end_ns, id, ++route.alarm_version});
  }
}

}  // namespace pipesim
