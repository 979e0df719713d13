// Time by stacks: of a run the whole makespan of each rank, of events each instant once.
#include "traces/flame/stacks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "sim/schedule/closing.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/events.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "tests/stacks.h"
#include "traces/flame/flame_graph.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using testing::pick;
using testing::recorded;
using testing::stacks_of;

// What is open when, as a viewer would take it: by time, the last opened closed first.
void expect_balanced(const Stacks& stacks) {
  for (const StackLine& line : stacks.lines) {
    ASSERT_FALSE(line.events.empty());
    std::vector<std::uint32_t> open;
    std::int64_t now_ns = line.start_ns;
    for (const StackEvent& event : line.events) {
      ASSERT_GE(event.at_ns, now_ns);
      now_ns = event.at_ns;
      ASSERT_LT(event.frame, stacks.frames.size());
      if (event.opens) {
        open.push_back(event.frame);
        continue;
      }
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), event.frame);
      open.pop_back();
    }
    ASSERT_TRUE(open.empty());
    ASSERT_LE(now_ns, line.end_ns);
  }
}

// Of each line: the sum over its leaves, and parts of it, by the tags of frames.
void expect_metrics(const RecordedRun& run) {
  const Stacks stacks = stacks_of(run);
  expect_balanced(stacks);
  std::size_t at = 0;
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    const Metrics metrics = run.metrics(i);
    for (const RankMetrics& rank : metrics.ranks) {
      if (run.iterations[i].makespan_ns == 0) continue;
      ASSERT_LT(at, stacks.lines.size());
      const FlameGraph graph = flame_graph({stacks.frames, {stacks.lines[at++]}});
      std::int64_t sum = 0;
      std::int64_t busy = 0;
      std::array<std::int64_t, 4> idle{};
      for (std::uint32_t node = 1; node < graph.nodes.size(); ++node) {
        const FlameGraph::Node& own = graph.nodes[node];
        ASSERT_TRUE(own.count == 0 || own.self_ns == 0) << graph.frame(node).name;
        sum += own.self_ns;
        if (graph.frame(node).work) busy += own.self_ns;
        if (own.count > 0 || !graph.frame(node).idle) continue;
        const BubbleKind kind = *graph.frame(node).idle;
        idle[static_cast<std::size_t>(kind)] += own.self_ns;
        // A transfer delays a rank in any phase; all else is in its own.
        if (kind != BubbleKind::p2p) {
          ASSERT_EQ(graph.frame(own.parent).idle, kind);
        }
      }
      ASSERT_EQ(sum, metrics.makespan_ns);
      ASSERT_EQ(graph.nodes[FlameGraph::root].total_ns, metrics.makespan_ns);
      ASSERT_EQ(busy, rank.busy_ns);
      ASSERT_EQ(idle, rank.bubble.by_kind());
    }
  }
  ASSERT_EQ(at, stacks.lines.size());
}

TEST(Stacks, OfARankSumToTheMakespanOnRandomSchedules) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    SimulationOptions options;
    options.transfers.mode = std::array{P2p::async, P2p::blocking, P2p::fifo,
                                        P2p::edge_fifo}[static_cast<std::size_t>(i) % 4];
    RecordedRun run;
    try {
      run = recorded(schedule, testing::random_costs(random, schedule), "run", options);
    } catch (const Error&) {
      continue;  // one order of all transfers may deadlock
    }
    expect_metrics(run);
  }
}

TEST(Stacks, OfARankSumToTheMakespanWhenClocksDisagree) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    RecordedRun run = recorded(schedule, testing::random_costs(random, schedule));
    for (Span& span : run.spans) {
      span.action.joined = false;
      span.start_ns += pick(random, 0, 500);
      span.end_ns = span.start_ns + pick(random, 0, 900);
      if (span.has_input()) span.input_arrival_ns += pick(random, -300, 300);
    }
    testing::shift_clock(run, 0, pick(random, -2000, 2000));
    expect_metrics(run);
  }
}

TEST(Stacks, OfARankSumToTheMakespanInRecordedRuns) {
  for (const char* name : {"1f1b", "interleaved", "zb-h1", "gpipe"}) {
    const std::string path = testing::source_file(std::string("traces/recorded/") + name);
    expect_metrics(read_run({path + ".rank0.json.gz", path + ".rank1.json.gz"}));
  }
}

TEST(Stacks, OfARankSumToTheMakespanInIterationsThatFollowEachOther) {
  const Schedule schedule = generate(ScheduleRequest{"zb-h2", 4, 8, {}, {}, {}});
  SimulationOptions options;
  options.iterations = 3;
  const RecordedRun run = recorded(schedule, testing::costs_of(4, 100, 200, 30), "run", options);
  ASSERT_EQ(run.iterations.size(), 3U);
  expect_metrics(run);
}

std::string text_of(const FlameGraph& graph, std::uint32_t node = FlameGraph::root,
                    const std::string& path = {}) {
  std::string text;
  if (graph.nodes[node].self_ns > 0)
    text += fmt::format("{} {}\n", path, graph.nodes[node].self_ns);
  const std::uint32_t first = graph.nodes[node].first;
  for (std::uint32_t child = first; child < first + graph.nodes[node].count; ++child) {
    text += text_of(graph, child, path + (path.empty() ? "" : ";") + graph.frame(child).name);
  }
  return text;
}

// The schedule of bubbles_test: F 2, B 4, a hop of 1.
TEST(Stacks, OfOneFOneBByHand) {
  const Schedule schedule = generate(ScheduleRequest{"1f1b", 2, 2, {}, {}, {}});
  EXPECT_EQ(text_of(flame_graph(stacks_of(recorded(schedule, testing::costs_of(2, 2, 4, 1))))),
            "step 0;rank 0;stage 0;drain;B 8\n"
            "step 0;rank 0;stage 0;warm-up;F 4\n"
            "step 0;rank 0;idle;warm-up;waits for backward of stage 1 5\n"
            "step 0;rank 0;idle;warm-up;transfer from stage 1 1\n"
            "step 0;rank 0;idle;drain;waits for backward of stage 1 1\n"
            "step 0;rank 0;idle;drain;transfer from stage 1 1\n"
            "step 0;rank 1;stage 1;steady;B 4\n"
            "step 0;rank 1;stage 1;steady;F 2\n"
            "step 0;rank 1;stage 1;drain;B 4\n"
            "step 0;rank 1;stage 1;warm-up;F 2\n"
            "step 0;rank 1;idle;drain;end of the step 5\n"
            "step 0;rank 1;idle;warm-up;waits for F of stage 0 2\n"
            "step 0;rank 1;idle;warm-up;transfer from stage 0 1\n");
}

// The first rank is the last to come to the norm, and the last to leave.
TEST(Stacks, NameTheGroupThatARankWaitsFor) {
  Schedule schedule = generate(ScheduleRequest{"1f1b", 2, 2, {}, {}, {}});
  schedule = with_closing(schedule, std::vector<Closing>(2, {.finds_norm = true}));
  Costs costs = testing::costs_of(2, 2, 4, 1);
  costs.gradient_norm = GroupCosts{.latency_ns = 3};
  const RecordedRun run = recorded(schedule, costs);
  expect_metrics(run);
  const std::string text = text_of(flame_graph(stacks_of(run)));
  EXPECT_NE(text.find("step 0;rank 1;idle;drain;waits for the others of GRAD_NORM 5\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("step 0;rank 1;stage 1;closing;GRAD_NORM 3\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 0;idle;drain;waits for the others"), std::string::npos) << text;
}

TEST(Stacks, OfSlicesByHand) {
  const Stacks stacks = stacks_of(gui::testing::events());
  expect_balanced(stacks);
  EXPECT_EQ(text_of(flame_graph(stacks)),
            "gpu 0;stream 7;kernel 14000\n"
            "python 1;thread 7;step 2500\n"
            "python 1;thread 7;step;layer 2 4000\n"
            "python 1;thread 7;step;layer 1 1500\n");
}

// Every slice has a name of its own; a second of each track.
EventTrace random_events(std::mt19937_64& random) {
  EventTrace trace;
  trace.texts = {""};
  trace.tracks = {{"p", "a", 0, 0, 1}, {"p", "b", 0, 0, 1}};
  for (std::uint32_t track = 0; track < 2; ++track) {
    const std::int64_t count = pick(random, 1, 12);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t start = pick(random, 0, 40);
      Slice slice;
      slice.start_ns = start;
      slice.end_ns = start + pick(random, 0, 20);
      slice.track = track;
      slice.name = static_cast<std::uint32_t>(trace.texts.size());
      slice.row = static_cast<std::uint16_t>(i);  // what else is alike
      trace.texts.push_back(fmt::format("{}", trace.texts.size()));
      trace.slices.push_back(slice);
    }
  }
  return trace;
}

// Instant by instant: of those that last the one that began last, unless a later one outlasts
// it, which is within none that ends before it.
std::map<std::string, std::int64_t> instant_by_instant(const EventTrace& trace) {
  std::map<std::string, std::int64_t> sums;
  const auto is_before = [&](const Slice& a, const Slice& b) {
    return std::tuple(a.start_ns, -a.end_ns, a.row) < std::tuple(b.start_ns, -b.end_ns, b.row);
  };
  for (std::int64_t now = 0; now < 70; ++now) {
    for (std::uint32_t track = 0; track < 2; ++track) {
      std::vector<Slice> open;
      for (const Slice& slice : trace.slices) {
        if (slice.track != track || slice.start_ns > now || slice.end_ns <= now) continue;
        const bool outlasted = std::ranges::any_of(trace.slices, [&](const Slice& other) {
          return other.track == track && is_before(slice, other) && other.start_ns <= now &&
                 other.end_ns > slice.end_ns;
        });
        if (!outlasted) open.push_back(slice);
      }
      if (open.empty()) continue;
      std::ranges::sort(open, is_before);
      std::string path = trace.tracks[track].process + ";" + trace.tracks[track].name;
      for (const Slice& slice : open) path += ";" + trace.texts[slice.name];
      ++sums[path];
    }
  }
  return sums;
}

TEST(Stacks, OfSlicesAreThoseOfEachInstant) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const EventTrace trace = random_events(random);
    const Stacks stacks = stacks_of(trace);
    expect_balanced(stacks);
    const FlameGraph graph = flame_graph(stacks);
    std::map<std::string, std::int64_t> sums;
    for (std::uint32_t node = 1; node < graph.nodes.size(); ++node) {
      if (graph.nodes[node].self_ns == 0) continue;
      std::string path = graph.frame(node).name;
      for (std::uint32_t up = graph.nodes[node].parent; up != FlameGraph::root;
           up = graph.nodes[up].parent) {
        path = graph.frame(up).name + ";" + path;
      }
      EXPECT_TRUE(sums.emplace(path, graph.nodes[node].self_ns).second) << path;
    }
    ASSERT_EQ(sums, instant_by_instant(trace)) << i;
  }
}

TEST(Stacks, ChildrenComeTheLongestFirst) {
  std::mt19937_64 random(4);
  const FlameGraph graph = flame_graph(stacks_of(random_events(random)));
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const auto children = graph.children(node);
    std::int64_t sum = graph.nodes[node].self_ns;
    for (const FlameGraph::Node& child : children) {
      EXPECT_EQ(child.parent, node);
      sum += child.total_ns;
    }
    EXPECT_EQ(sum, graph.nodes[node].total_ns);
    EXPECT_TRUE(std::ranges::is_sorted(children, std::greater(), &FlameGraph::Node::total_ns));
  }
}

TEST(Stacks, OfTheProfilersOwnMarkAreNone) {
  EventTrace trace = gui::testing::events();
  trace.texts.emplace_back("Trace");
  trace.slices.push_back(
      {0, 90000, 3, 1, 0, static_cast<std::uint16_t>(trace.texts.size() - 1), 1});
  EXPECT_EQ(text_of(flame_graph(stacks_of(trace))),
            text_of(flame_graph(stacks_of(gui::testing::events()))));
}

}  // namespace
}  // namespace pipesim
