// The event engine without any pipeline: its queue, its network, its streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "tests/random_schedule.h"
#include "traces/event/event_engine.h"
#include "traces/event/event_queue.h"
#include "traces/event/flow_network.h"

namespace pipesim {
namespace {

using testing::pick;

// ---- The queue

TEST(EventQueue, TakesByTimeThenByOrderOfPushing) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    EventQueue<int> queue;
    std::multimap<std::int64_t, int> truth;  // keeps the order of insertion within a key
    std::int64_t now = 0;
    int next = 0;
    const std::int64_t spread = std::int64_t{1} << pick(random, 0, 61);
    std::vector<int> taken;
    for (int step = 0; step < 300; ++step) {
      for (std::int64_t i = pick(random, 0, 3); i > 0; --i) {
        const std::int64_t time = now + pick(random, 0, spread) / 4;
        queue.push(time, next);
        truth.emplace(time, next++);
      }
      if (truth.empty()) continue;
      now = queue.take_instant(taken);
      ASSERT_EQ(now, truth.begin()->first);
      ASSERT_EQ(queue.now_ns(), now);
      std::vector<int> want;
      for (auto at = truth.begin(); at != truth.end() && at->first == now; at = truth.erase(at)) {
        want.push_back(at->second);
      }
      ASSERT_EQ(taken, want);
      ASSERT_EQ(queue.size(), truth.size());
      if (now > (std::int64_t{1} << 61)) break;
    }
  }
}

// ---- The network

// Drives a network alone: flows that start at given times, and when they end.
struct Start {
  std::int64_t at_ns;
  std::vector<LinkId> route;
  std::int64_t bytes;
};

std::vector<std::int64_t> ends_of(const std::vector<std::int64_t>& rates,
                                  const std::vector<Start>& starts) {
  FlowNetwork network;
  for (const std::int64_t rate : rates) network.add_link(rate);
  EventQueue<std::pair<int, FlowNetwork::Alarm>> queue;  // a start's index, or -1 and an alarm
  for (std::size_t i = 0; i < starts.size(); ++i) {
    queue.push(starts[i].at_ns, {static_cast<int>(i), {}});
  }
  std::vector<std::int64_t> ends(starts.size(), -1);
  std::vector<std::pair<int, FlowNetwork::Alarm>> events;
  std::vector<std::uint32_t> finished;
  const auto set_alarms = [&] {
    for (const auto& alarm : network.alarms()) queue.push(alarm.time_ns, {-1, alarm});
    network.alarms().clear();
  };
  while (!queue.empty()) {
    const std::int64_t now = queue.take_instant(events);
    // What ends comes before what starts.
    for (const auto& [index, alarm] : events) {
      if (index >= 0) continue;
      finished.clear();
      network.wake(alarm, finished);
      for (const std::uint32_t key : finished) ends[key] = now;
      set_alarms();
    }
    for (const auto& [index, alarm] : events) {
      if (index < 0) continue;
      const Start& start = starts[static_cast<std::size_t>(index)];
      network.start(static_cast<std::uint32_t>(index), network.add_route(start.route), start.bytes,
                    now);
      set_alarms();
    }
    for (std::size_t link = 0; link < rates.size(); ++link) {
      EXPECT_LE(network.load(static_cast<LinkId>(link)),
                static_cast<double>(rates[link]) * (1 + 1e-9));
    }
  }
  return ends;
}

using Ends = std::vector<std::int64_t>;
constexpr std::int64_t GB = 1'000'000'000;  // a byte a nanosecond

TEST(FlowNetwork, AloneTakesTheCeilingOfBytesOverRate) {
  EXPECT_EQ(ends_of({3 * GB}, {{0, {0}, 9}}), (Ends{3}));
  EXPECT_EQ(ends_of({3 * GB}, {{0, {0}, 10}}), (Ends{4}));
  EXPECT_EQ(ends_of({3 * GB}, {{5, {0}, 1}}), (Ends{6}));
  EXPECT_EQ(ends_of({7}, {{0, {0}, 1}}), (Ends{142'857'143}));
  EXPECT_EQ(ends_of({GB, 2 * GB}, {{0, {0, 1}, 10}}), (Ends{10}));  // the narrowest counts
  // Too long for doubles to hold every nanosecond.
  EXPECT_EQ(ends_of({3}, {{0, {0}, 30'000'001}}), (Ends{10'000'000'333'333'334}));
}

// By hand: half the link each from 1000 to 5000, where A's last 2000 bytes are
// gone and B has 1000 left.
TEST(FlowNetwork, TwoFlowsShareALink) {
  EXPECT_EQ(ends_of({GB}, {{0, {0}, 3000}, {1000, {0}, 3000}}), (Ends{5000, 6000}));
  // Together from the start: 2 x 1000 in 2000, then 2000 alone.
  EXPECT_EQ(ends_of({GB}, {{0, {0}, 1000}, {0, {0}, 3000}}), (Ends{2000, 4000}));
  // A leaves at 3: B starts at that instant and never shares.
  EXPECT_EQ(ends_of({GB}, {{0, {0}, 3}, {3, {0}, 3}}), (Ends{3, 6}));
  // 2/3 byte a nanosecond each: A's 5 bytes end at 7.5, B's other 5 at 11.25.
  EXPECT_EQ(ends_of({4 * GB / 3}, {{0, {0}, 5}, {0, {0}, 10}}), (Ends{8, 12}));
}

TEST(FlowNetwork, ThreeFlowsShareALink) {
  // Thirds, then halves, then alone.
  EXPECT_EQ(ends_of({GB}, {{0, {0}, 1000}, {0, {0}, 2000}, {0, {0}, 3000}}),
            (Ends{3000, 5000, 6000}));
  EXPECT_EQ(ends_of({GB}, {{0, {0}, 1000}, {0, {0}, 1000}, {0, {0}, 1000}}),
            (Ends{3000, 3000, 3000}));
  // A alone 600, with B 600 each half: 300 gone at 1200; C joins: A has 2100
  // left at a third until 7500, where C, of 1000, left at 4200 already. So: C
  // ends at 4200 (A 1100, B 1700 left), A at 6400, B, 600 left, at 7000.
  EXPECT_EQ(ends_of({GB}, {{0, {0}, 3000}, {600, {0}, 3000}, {1200, {0}, 1000}}),
            (Ends{6400, 7000, 4200}));
}

// Ends a hair above a whole nanosecond, and whole ones after a long time.
TEST(FlowNetwork, EndsAreRoundedUp) {
  // 20 bytes in all: 2 x 5 shared from 5 on end at 35.00000003 and 60.00000006.
  EXPECT_EQ(ends_of({333'333'333}, {{5, {0}, 5}, {5, {0}, 5}}), (Ends{36, 36}));
  EXPECT_EQ(ends_of({333'333'333}, {{0, {0}, 5}, {8, {0}, 5}}), (Ends{23, 31}));
  EXPECT_EQ(ends_of({10'000'000}, {{0, {0}, 339'644'242}, {25'266, {0}, 339'644'242}}),
            (Ends{67'928'823'134, 67'928'848'400}));
}

// A flow with a link to itself ends at 16.0000048 and hands its share of the
// other link over within that nanosecond: no alarm lies before now.
TEST(FlowNetwork, HandsOverWithinANanosecond) {
  const std::vector<std::int64_t> rates{999'999'700, 2'999'997'300};
  const Ends ends = ends_of(rates, {{12, {0, 1}, 1}, {12, {1}, 2}, {12, {1}, 1}});
  for (const std::int64_t end : ends) EXPECT_GT(end, 12);
}

// A long way and two short ones: the long flow and the short one on the narrow
// link get half of it, the short one on the wide link all the rest.
TEST(FlowNetwork, MaxMinOverTwoLinks) {
  const std::vector<std::int64_t> rates{GB, 3 * GB};
  const Ends ends = ends_of(rates, {{0, {0, 1}, 1000}, {0, {0}, 1000}, {0, {1}, 5000}});
  // 0.5, 0.5 and 2.5 bytes a nanosecond: all are gone at 2000.
  EXPECT_EQ(ends, (Ends{2000, 2000, 2000}));
  // A flow that has the wide link to itself later: 0.5, then 1 as B is gone.
  EXPECT_EQ(ends_of(rates, {{0, {0, 1}, 1500}, {0, {0}, 1000}}), (Ends{2500, 2000}));
}

// The definition, without any cleverness: at every change all rates anew, by
// raising all together until a link is full. Long double, real time.
Ends brute_force_ends(const std::vector<std::int64_t>& rates, const std::vector<Start>& starts) {
  struct Active {
    std::size_t index;
    long double left;
  };
  std::vector<Active> active;
  Ends ends(starts.size(), -1);
  std::vector<std::size_t> order(starts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return starts[i].at_ns; });
  std::size_t next = 0;
  long double now = 0;
  while (next < order.size() || !active.empty()) {
    std::vector<long double> rate(active.size(), 0);
    std::vector<bool> fixed(active.size(), false);
    std::vector<long double> spare(rates.begin(), rates.end());
    for (std::size_t left = active.size(); left > 0;) {
      long double step = INFINITY;
      for (std::size_t link = 0; link < rates.size(); ++link) {
        std::size_t users = 0;
        for (std::size_t f = 0; f < active.size(); ++f) {
          const auto& route = starts[active[f].index].route;
          if (!fixed[f] && std::ranges::count(route, link) > 0) ++users;
        }
        if (users > 0) step = std::min(step, spare[link] / static_cast<long double>(users));
      }
      for (std::size_t f = 0; f < active.size(); ++f) {
        if (fixed[f]) continue;
        rate[f] += step;
        for (const LinkId link : starts[active[f].index].route) spare[link] -= step;
      }
      for (std::size_t f = 0; f < active.size(); ++f) {
        const auto is_full = [&](LinkId link) {
          return spare[link] < static_cast<long double>(rates[link]) * 1e-12L;
        };
        if (!fixed[f] && std::ranges::any_of(starts[active[f].index].route, is_full)) {
          fixed[f] = true;
          --left;
        }
      }
    }
    long double until = INFINITY;
    for (std::size_t f = 0; f < active.size(); ++f) {
      until = std::min(until, now + active[f].left * 1e9L / rate[f]);
    }
    if (next < order.size()) {
      until = std::min(until, static_cast<long double>(starts[order[next]].at_ns));
    }
    for (std::size_t f = 0; f < active.size(); ++f) {
      active[f].left -= rate[f] * (until - now) / 1e9L;
    }
    now = until;
    std::erase_if(active, [&](const Active& flow) {
      if (flow.left > 1e-12L) return false;
      ends[flow.index] = static_cast<std::int64_t>(std::ceil(now - 1e-12L));
      return true;
    });
    while (next < order.size() && static_cast<long double>(starts[order[next]].at_ns) <= now) {
      active.push_back({order[next], static_cast<long double>(starts[order[next]].bytes)});
      ++next;
    }
  }
  return ends;
}

TEST(FlowNetwork, AgreesWithTheDefinitionOnRandomFlows) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> rates;
    for (std::int64_t i = pick(random, 1, 5); i > 0; --i) {
      rates.push_back(GB * pick(random, 1, 6) / pick(random, 1, 7));
    }
    std::vector<Start> starts;
    const std::int64_t most = pick(random, 0, 1) == 0 ? 20 : 5000;
    for (std::int64_t i = pick(random, 1, 12); i > 0; --i) {
      std::set<LinkId> route;
      for (std::int64_t k = pick(random, 1, 3); k > 0; --k) {
        route.insert(
            static_cast<LinkId>(pick(random, 0, static_cast<std::int64_t>(rates.size()) - 1)));
      }
      starts.push_back(
          {pick(random, 0, 2 * most), {route.begin(), route.end()}, pick(random, 1, most)});
    }
    ASSERT_EQ(ends_of(rates, starts), brute_force_ends(rates, starts)) << "round " << round;
  }
}

// ---- Streams

// Tasks with a duration, or bytes; each signals those in `after`.
struct ToyTask {
  std::vector<StreamId> streams;
  std::int64_t duration_ns = 0;
  std::int64_t bytes = 0;
  std::vector<TaskId> signals = {};
  std::int64_t moved_to_ns = 0;  // its end is set twice
};

class Toy {
 public:
  // `streams`: the tasks of each, in order; those in `grouped` with their next.
  Toy(std::vector<ToyTask> tasks, const std::vector<std::vector<TaskId>>& streams,
      const std::set<TaskId>& grouped = {})
      : tasks_(std::move(tasks)), engine_(*this, plan(streams, grouped)) {}

  bool run() { return engine_.run(); }

  void start(TaskId task) {
    log.push_back({"start", task, engine_.now_ns()});
    if (tasks_[task].bytes > 0) {
      engine_.send(task, route_, tasks_[task].bytes);
    } else if (tasks_[task].moved_to_ns > 0) {
      engine_.finish_at(task, engine_.now_ns() + tasks_[task].duration_ns, 1);
      engine_.finish_at(task, tasks_[task].moved_to_ns, 2);
    } else {
      engine_.finish_at(task, engine_.now_ns() + tasks_[task].duration_ns);
    }
  }
  void finish(TaskId task) {
    log.push_back({"end", task, engine_.now_ns()});
    for (const TaskId other : tasks_[task].signals) engine_.signal(other);
  }
  std::array<StreamId, 2> streams_of(TaskId task) const {
    const auto& own = tasks_[task].streams;
    return {own.empty() ? no_stream : own[0], own.size() < 2 ? no_stream : own[1]};
  }
  std::int64_t latency_of(TaskId task) const { return tasks_[task].duration_ns; }
  bool is_current(TaskId /*task*/, std::uint32_t version) const { return version == 2; }

  std::int64_t time_of(const std::string& what, TaskId task) const {
    const auto found = std::ranges::find_if(
        log, [&](const Entry& entry) { return entry.what == what && entry.task == task; });
    return found == log.end() ? -1 : found->time_ns;
  }

  struct Entry {
    std::string what;
    TaskId task;
    std::int64_t time_ns;
  };

  std::vector<Entry> log;

 private:
  EventPlan plan(const std::vector<std::vector<TaskId>>& streams, const std::set<TaskId>& grouped) {
    EventPlan plan;
    plan.resize(streams.size(), tasks_.size());
    route_ = plan.network.add_route({plan.network.add_link(GB)});
    for (StreamId stream = 0; stream < streams.size(); ++stream) {
      for (const TaskId task : streams[stream]) plan.append(stream, task, grouped.contains(task));
    }
    for (const ToyTask& task : tasks_) {
      for (const TaskId other : task.signals) plan.need_signal(other);
    }
    return plan;
  }

  std::vector<ToyTask> tasks_;
  RouteId route_ = no_route;
  EventEngine<Toy> engine_;
};

TEST(EventEngine, StreamsRunInOrderAndMeet) {
  // Stream 0: a (10), c; stream 1: b (3), c. c starts once both have come to it.
  Toy toy({{{0}, 10}, {{1}, 3}, {{0, 1}, 5}, {{1}, 1}}, {{0, 2}, {1, 2, 3}});
  EXPECT_TRUE(toy.run());
  EXPECT_EQ(toy.time_of("start", 2), 10);
  EXPECT_EQ(toy.time_of("start", 3), 15);
}

TEST(EventEngine, AGroupRunsSideBySide) {
  Toy toy({{{0}, 4}, {{0}, 9}, {{0}, 1}}, {{0, 1, 2}}, {0});
  EXPECT_TRUE(toy.run());
  EXPECT_EQ(toy.time_of("start", 1), 0);
  EXPECT_EQ(toy.time_of("start", 2), 9);
}

TEST(EventEngine, ASignalHoldsATaskAndWhatStandsBehindIt) {
  Toy toy({{{0}, 7, 0, {1}}, {{1}, 1}, {{1}, 1}}, {{0}, {1, 2}});
  EXPECT_TRUE(toy.run());
  EXPECT_EQ(toy.time_of("start", 1), 7);
  EXPECT_EQ(toy.time_of("start", 2), 8);
}

TEST(EventEngine, LatencyFollowsTheLastByte) {
  // Two flows of 100 bytes share a link of a byte a nanosecond.
  Toy toy({{{0}, 5, 100}, {{1}, 50, 100}}, {{0}, {1}});
  EXPECT_TRUE(toy.run());
  EXPECT_EQ(toy.time_of("end", 0), 205);
  EXPECT_EQ(toy.time_of("end", 1), 250);
}

TEST(EventEngine, SaysThatTasksAreLeftOver) {
  Toy toy({{{0, 1}, 1}, {{0, 1}, 1}}, {{0, 1}, {1, 0}});  // crossed
  EXPECT_FALSE(toy.run());
  EXPECT_TRUE(toy.log.empty());
}

TEST(EventEngine, WhatEndsComesBeforeWhatStarts) {
  // At 5 two tasks end; what they free starts only then.
  Toy toy({{{0}, 5}, {{1}, 5}, {{0}, 1}, {{1}, 1}}, {{0, 2}, {1, 3}});
  EXPECT_TRUE(toy.run());
  std::string order;
  for (const auto& entry : toy.log) {
    if (entry.time_ns == 5) order += entry.what + std::to_string(entry.task) + " ";
  }
  EXPECT_EQ(order, "end0 end1 start2 start3 ");
}

TEST(EventEngine, OnlyTheCurrentEndCounts) {
  Toy toy({{.streams = {0}, .duration_ns = 10, .moved_to_ns = 20}, {{0}, 1}}, {{0, 1}});
  EXPECT_TRUE(toy.run());
  EXPECT_EQ(toy.time_of("end", 0), 20);
  EXPECT_EQ(toy.time_of("start", 1), 20);
}

}  // namespace
}  // namespace pipesim
