#include "exec/input_pipeline/emulated_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "exec/run/clock.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// When the last rank arrived; all ranks exchange their times.
std::int64_t last_to_come(InputExchange& exchange, std::int64_t own_ns) {
  const auto told = std::as_bytes(std::span(&own_ns, 1));
  std::int64_t last_ns = own_ns;
  for (const Bytes& bytes : exchange.all_to_all(std::vector<Bytes>(
           static_cast<std::size_t>(exchange.ranks()), Bytes(told.begin(), told.end())))) {
    last_ns = std::max(last_ns, values_of<std::int64_t>(bytes).front());
  }
  return last_ns;
}

}  // namespace

EmulatedNetwork::EmulatedNetwork(const InputCosts& costs) {
  // For each link the first one that it is joined with, directly or via others.
  std::vector<std::uint32_t> first(costs.links.size());
  std::iota(first.begin(), first.end(), 0U);
  const auto first_of = [&](std::uint32_t link) {
    while (first[link] != link) link = first[link] = first[first[link]];
    return link;
  };
  for (const auto& rank : costs.work) {
    for (const InputWork& work : rank) {
      for (const std::uint32_t link : work.links) {
        const auto [low, high] = std::minmax({first_of(link), first_of(work.links.front())});
        first[high] = low;
      }
    }
  }
  part_of_.resize(costs.links.size());
  for (std::uint32_t link = 0; link < costs.links.size(); ++link) {
    Part*& part = part_of_[link];
    if (first_of(link) == link) {
      part = parts_.emplace_back(std::make_unique<Part>()).get();
    } else {
      part = part_of_[first_of(link)];
    }
    link_of_.push_back(part->network.add_link(costs.links[link].bytes_per_second));
  }
}

void EmulatedNetwork::Part::take_alarms() {
  alarms.insert(alarms.end(), network.alarms().begin(), network.alarms().end());
  network.alarms().clear();
}

std::int64_t EmulatedNetwork::Part::next_ns() const {
  return std::ranges::min_element(alarms, {}, &FlowNetwork::Alarm::time_ns)->time_ns;
}

void EmulatedNetwork::Part::pass_until(std::int64_t time_ns) {
  std::vector<std::uint32_t> finished;
  while (!alarms.empty() && next_ns() <= time_ns) {
    const auto first = std::ranges::min_element(alarms, {}, &FlowNetwork::Alarm::time_ns);
    const FlowNetwork::Alarm alarm = *first;
    alarms.erase(first);
    passed_ns = std::max(passed_ns, alarm.time_ns);
    network.wake(alarm, finished);
    take_alarms();
    for (const std::uint32_t flow : finished) ended[flow] = alarm.time_ns;
    finished.clear();
  }
  passed_ns = std::max(passed_ns, time_ns);
}

std::int64_t EmulatedNetwork::transfer(std::span<const std::uint32_t> links, std::int64_t bytes,
                                       std::int64_t start_ns) {
  // steady_clock is CLOCK_MONOTONIC.
  using Time = std::chrono::steady_clock::time_point;
  Part& part = *part_of_[links.front()];
  std::vector<LinkId> own_links;
  for (const std::uint32_t link : links) own_links.push_back(link_of_[link]);
  std::unique_lock lock(part.mutex);
  part.pass_until(start_ns);
  const std::uint32_t flow = part.flows++;
  part.network.start(flow, part.network.add_route(own_links), bytes, part.passed_ns);
  part.take_alarms();
  part.shared_anew.notify_all();
  while (!part.ended.contains(flow)) {
    const std::int64_t expected_ns = part.next_ns();
    part.shared_anew.wait_until(lock, Time(std::chrono::nanoseconds(expected_ns)));
    // No further than that: another rank's recent start may not be known yet.
    if (Clock::monotonic_ns() >= expected_ns) part.pass_until(expected_ns);
  }
  return part.ended.extract(flow).mapped();
}

void EmulatedInput::call(const Action& action) {
  const std::int64_t takes_ns = costs_.of(rank_, action.kind).host_ns;
  if (takes_ns > 0) sleep_until(Clock::monotonic_ns() + takes_ns);
}

void EmulatedInput::run(const Action& action, InputExchange* exchange) {
  std::int64_t now_ns = Clock::monotonic_ns();
  const InputWork& work = costs_.of(rank_, action.kind);
  if (exchange != nullptr) now_ns = last_to_come(*exchange, now_ns);
  if (work.bytes > 0 && !work.links.empty()) {
    now_ns = network_.transfer(work.links, work.bytes, now_ns);
  }
  sleep_until(now_ns + work.duration_ns);
}

void EmulatedInput::sleep_until(std::int64_t monotonic_ns) {
  PreciseSleep* sleep = nullptr;
  {
    const std::lock_guard lock(mutex_);
    sleep = &sleeps_[std::this_thread::get_id()];
  }
  sleep->until(monotonic_ns);
}

void check_links_apart(const InputCosts& costs) {
  std::vector<int> user(costs.links.size(), -1);
  for (int rank = 0; rank < costs.ranks(); ++rank) {
    for (const InputWork& work : costs.work[static_cast<std::size_t>(rank)]) {
      for (const std::uint32_t link : work.links) {
        if (user[link] >= 0 && user[link] != rank) {
          throw input_error(fmt::format(
              "link {} is shared by ranks {} and {}, which are processes that don't see what each "
              "other sends; give --transport local",
              quote(costs.links[link].name), user[link], rank));
        }
        user[link] = rank;
      }
    }
  }
}

}  // namespace pipesim::exec
