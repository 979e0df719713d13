#include "sim/engine/event/flow_network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>

#include "traces/base/rate.h"

namespace pipesim {
namespace {

constexpr double ns_per_second = 1e9;

// How far above a whole nanosecond an end may lie and still count as it: the
// rounding errors of `length_ns` of flow at rates that are not whole numbers.
double tolerance(double length_ns) { return 1e-6 + length_ns * 1e-13; }

}  // namespace

LinkId FlowNetwork::add_link(std::int64_t bytes_per_second) {
  assert(bytes_per_second > 0);
  links_.push_back({.bytes_per_second = bytes_per_second, .flows = {}});
  return static_cast<LinkId>(links_.size() - 1);
}

double FlowNetwork::load(LinkId link) const {
  double sum = 0;
  for (const std::uint32_t flow : links_[link].flows) sum += flows_[flow].rate;
  return sum;
}

void FlowNetwork::start(std::uint32_t key, std::span<const LinkId> route, std::int64_t bytes,
                        std::int64_t now_ns) {
  assert(bytes > 0 && !route.empty());
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Flow& flow = flows_[index];
  flow.key = key;
  flow.route = route;
  flow.bytes = bytes;
  flow.remaining = static_cast<double>(bytes);
  flow.rate = 0;
  flow.since_ns = now_ns;
  flow.since_fraction = 0;
  flow.whole_rate = 0;
  for (const LinkId link : route) links_[link].flows.push_back(index);
  collect(route);
  find_rates();
  apply_rates({now_ns, 0});
}

void FlowNetwork::wake(const Alarm& alarm, std::vector<std::uint32_t>& finished) {
  if (flows_[alarm.flow].version != alarm.version) return;
  collect(flows_[alarm.flow].route);
  // Flows that end within the same nanosecond free their links one after the
  // other, in continuous time.
  for (;;) {
    const auto ending_first = [&](std::uint32_t a, std::uint32_t b) {
      const auto end = [&](const Flow& f) {
        return static_cast<double>(f.since_ns - alarm.time_ns) + f.end_fraction;
      };
      return end(flows_[a]) < end(flows_[b]);
    };
    std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
    for (const std::uint32_t index : joined_flows_) {
      if (flows_[index].end_ns > alarm.time_ns) continue;
      if (first == std::numeric_limits<std::uint32_t>::max() || ending_first(index, first)) {
        first = index;
      }
    }
    if (first == std::numeric_limits<std::uint32_t>::max()) return;
    const Flow& ending = flows_[first];
    const double whole = std::floor(ending.end_fraction);
    Instant at{ending.since_ns + static_cast<std::int64_t>(whole), ending.end_fraction - whole};
    if (ending.whole_rate == 0 && at.fraction <= tolerance(ending.end_fraction)) at.fraction = 0;
    if (at.ns >= alarm.time_ns) at = {alarm.time_ns, 0};
    assert(is_all_gone(ending, at));
    finished.push_back(ending.key);
    remove(first);
    find_rates();
    apply_rates(at);
  }
}

// Finds all links and flows that a chain of shared links joins to `links`.
void FlowNetwork::collect(std::span<const LinkId> links) {
  ++search_;
  joined_links_.clear();
  joined_flows_.clear();
  const auto meet = [&](LinkId link) {
    if (links_[link].seen == search_) return;
    links_[link].seen = search_;
    joined_links_.push_back(link);
  };
  for (const LinkId link : links) meet(link);
  for (std::size_t i = 0; i < joined_links_.size(); ++i) {
    for (const std::uint32_t index : links_[joined_links_[i]].flows) {
      if (flows_[index].seen == search_) continue;
      flows_[index].seen = search_;
      joined_flows_.push_back(index);
      for (const LinkId link : flows_[index].route) meet(link);
    }
  }
}

// Progressive filling: the link with the smallest fair share is full first and
// fixes the rate of its flows, which leaves the rest to the others.
void FlowNetwork::find_rates() {
  const auto fair_share = [&](const Link& link) { return link.spare / link.unfixed; };
  for (const std::uint32_t flow : joined_flows_) flows_[flow].fixed = false;
  tightest_.clear();
  for (const LinkId id : joined_links_) {
    Link& link = links_[id];
    link.spare = static_cast<double>(link.bytes_per_second);
    link.unfixed = static_cast<std::uint32_t>(link.flows.size());
    if (link.unfixed > 0) tightest_.emplace_back(fair_share(link), id);
  }
  std::ranges::make_heap(tightest_, std::greater<>());
  while (!tightest_.empty()) {
    std::ranges::pop_heap(tightest_, std::greater<>());
    const auto [queued, id] = tightest_.back();
    tightest_.pop_back();
    Link& link = links_[id];
    if (link.unfixed == 0) continue;
    // Shares only grow as others are fixed: a link whose share has grown since
    // it was queued takes its place again.
    const double share = fair_share(link);
    if (share > queued) {
      tightest_.emplace_back(share, id);
      std::ranges::push_heap(tightest_, std::greater<>());
      continue;
    }
    for (const std::uint32_t index : link.flows) {
      if (!flows_[index].fixed) fix(flows_[index], share);
    }
  }
#ifndef NDEBUG
  for (const LinkId id : joined_links_) {
    double sum = 0;
    for (const std::uint32_t index : links_[id].flows) sum += flows_[index].new_rate;
    assert(sum <= static_cast<double>(links_[id].bytes_per_second) * (1 + 1e-9) &&
           "a link carries more than it can");
  }
#endif
}

void FlowNetwork::fix(Flow& flow, double rate) {
  flow.fixed = true;
  flow.new_rate = rate;
  for (const LinkId id : flow.route) {
    links_[id].spare = std::max(links_[id].spare - rate, 0.0);
    --links_[id].unfixed;
  }
}

// From `at` on, flows cross their links at the rates just found.
void FlowNetwork::apply_rates(const Instant& at) {
  for (const std::uint32_t index : joined_flows_) {
    Flow& flow = flows_[index];
    if (flow.new_rate == flow.rate) continue;
    const double length_ns =
        static_cast<double>(at.ns - flow.since_ns) + (at.fraction - flow.since_fraction);
    const bool fresh = flow.rate == 0;
    flow.remaining = std::max(flow.remaining - flow.rate * length_ns / ns_per_second, 0.0);
    flow.rate = flow.new_rate;
    flow.since_ns = at.ns;
    flow.since_fraction = at.fraction;
    flow.whole_rate = 0;
    if (fresh) {
      const auto is_alone = [&](LinkId id) {
        return links_[id].flows.size() == 1 &&
               static_cast<double>(links_[id].bytes_per_second) == flow.rate;
      };
      const auto own = std::ranges::find_if(flow.route, is_alone);
      if (own != flow.route.end()) flow.whole_rate = links_[*own].bytes_per_second;
    }
    set_alarm(index);
  }
}

// Whether what was sent has arrived, to the accuracy of the arithmetic.
bool FlowNetwork::is_all_gone(const Flow& flow, const Instant& at) {
  const double length_ns =
      static_cast<double>(at.ns - flow.since_ns) + (at.fraction - flow.since_fraction);
  const double left = flow.remaining - flow.rate * length_ns / ns_per_second;
  const double unit = flow.rate / ns_per_second * tolerance(length_ns);
  return std::abs(left) <= unit + static_cast<double>(flow.bytes) * 1e-9;
}

void FlowNetwork::set_alarm(std::uint32_t index) {
  Flow& flow = flows_[index];
  flow.end_fraction = flow.since_fraction + flow.remaining * ns_per_second / flow.rate;
  if (flow.whole_rate > 0) {
    flow.end_ns = flow.since_ns + occupied_ns(flow.bytes, flow.whole_rate);
  } else {
    const double last = flow.end_fraction - tolerance(flow.end_fraction);
    flow.end_ns =
        flow.since_ns + std::max(static_cast<std::int64_t>(std::ceil(last)), std::int64_t{0});
  }
  alarms_.push_back({flow.end_ns, index, ++flow.version});
}

void FlowNetwork::remove(std::uint32_t index) {
  Flow& flow = flows_[index];
  ++flow.version;  // alarms that are still set mean nothing now
  for (const LinkId link : flow.route) {
    auto& flows = links_[link].flows;
    *std::ranges::find(flows, index) = flows.back();
    flows.pop_back();
  }
  *std::ranges::find(joined_flows_, index) = joined_flows_.back();
  joined_flows_.pop_back();
  free_.push_back(index);
}

}  // namespace pipesim
