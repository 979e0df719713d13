// Measured timelines as Chrome traces: several iterations, layers within
// actions, sampled memory, clocks that disagree. The rules are FORMAT.md's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;

struct Iteration {
  std::vector<Span> spans;
  std::vector<LayerSpan> layers;
  std::vector<MemorySample> samples;
};

std::string measured_trace_of(const TimelineFrame& frame, const std::vector<Iteration>& iterations,
                              std::optional<MeasuredRun> measured) {
  const testing::TemporaryFolder folder;
  OutputFile file(folder / "trace.json");
  ChromeTraceWriter writer(frame, "{}", file, std::move(measured));
  for (const Iteration& i : iterations) writer.add(i.spans, i.layers, i.samples);
  writer.finish();
  file.commit();
  return read_file(folder / "trace.json");
}

// Those of a phase, or all.
std::vector<Json> events_of(const std::string& text, const std::string& ph = {}) {
  std::vector<Json> events = Json::parse(text)["traceEvents"];
  if (!ph.empty()) std::erase_if(events, [&](const Json& event) { return event["ph"] != ph; });
  return events;
}

std::int64_t ns_of(const Json& us) {
  return static_cast<std::int64_t>(std::llround(us.get<double>() * 1000));
}

Span span_of(Action action, int rank, std::int64_t start_ns, std::int64_t end_ns,
             int iteration = 0) {
  Span span;
  span.action = action;
  span.rank = rank;
  span.iteration = iteration;
  span.start_ns = start_ns;
  span.end_ns = end_ns;
  return span;
}

TimelineFrame two_ranks() {
  TimelineFrame frame;
  frame.ranks = 2;
  frame.microbatches = 2;
  frame.chunk_of_stage = {0, 0};
  return frame;
}

// One microbatch from 0 to 1 and back; `late_ns` after the run's start.
Iteration there_and_back(int iteration, std::int64_t late_ns) {
  Iteration made;
  const auto add = [&](int stage, Kind kind, std::int64_t start_ns, std::int64_t end_ns) {
    made.spans.push_back(span_of(make_action(stage, kind, 0), stage, late_ns + start_ns,
                                 late_ns + end_ns, iteration));
  };
  add(0, Kind::F, 0, 1000);
  add(0, Kind::SEND_F, 1000, 1200);
  add(1, Kind::RECV_F, 1000, 1250);
  add(1, Kind::F, 1300, 2000);
  add(1, Kind::B, 2000, 4000);
  add(1, Kind::SEND_B, 4000, 4200);
  add(0, Kind::RECV_B, 4000, 4250);
  add(0, Kind::B, 4300, 6000);
  made.spans[3].queued_ns = 50;
  return made;
}

// The end of one iteration is the start of the next: what repeats an evaluation
// continues its counters, flows and rows.
TEST(MeasuredTrace, PredictedIterationsFollowEachOther) {
  std::mt19937_64 random(31);
  for (int i = 0; i < 50; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const RecordedRun timeline = record_run(schedule, testing::random_costs(random, schedule));
    std::int64_t end_ns = 0;
    for (const Span& span : timeline.spans) end_ns = std::max(end_ns, span.end_ns);
    const std::vector<Span> spans(timeline.spans.begin(), timeline.spans.end());
    Iteration again{spans, {}, {}};
    for (Span& span : again.spans) {
      span.iteration = 1;
      span.start_ns += end_ns;
      span.end_ns += end_ns;
    }
    const std::string one = measured_trace_of(timeline, {{spans, {}, {}}}, std::nullopt);
    const std::string two = measured_trace_of(timeline, {{spans, {}, {}}, again}, std::nullopt);
    const std::string end = "\n]}\n";
    ASSERT_EQ(two.substr(0, one.size() - end.size()), one.substr(0, one.size() - end.size()));
    EXPECT_EQ(events_of(two, "M"), events_of(one, "M")) << "the same rows serve again";
    EXPECT_EQ(events_of(two, "X").size(), 2 * events_of(one, "X").size());
    std::map<std::int64_t, int> ids;
    for (const Json& event : events_of(two, "s")) ++ids[event["id"].get<std::int64_t>()];
    EXPECT_EQ(ids.size(), 2 * events_of(one, "s").size());
    std::int64_t last_ns = 0;
    for (const Json& event : events_of(two)) {
      if (event["ph"] == "M") continue;
      EXPECT_GE(ns_of(event["ts"]), last_ns);
      last_ns = ns_of(event["ts"]);
    }
    if (HasFailure()) break;
  }
}

TEST(MeasuredTrace, SaysHowLongARankQueued) {
  const std::string text = measured_trace_of(
      two_ranks(), {there_and_back(0, 0), there_and_back(1, 7000)}, MeasuredRun{});
  const auto slices = events_of(text, "X");
  ASSERT_EQ(slices.size(), 16U);
  for (const Json& slice : slices) {
    const bool queued = slice["name"] == "1F0";
    EXPECT_EQ(slice["args"]["queued_ns"], queued ? 50 : 0) << slice;
    EXPECT_EQ(slice["args"]["iteration"], ns_of(slice["ts"]) < 7000 ? 0 : 1);
  }
  EXPECT_TRUE(events_of(text, "C").empty()) << "nothing was sampled";
  const std::string predicted = measured_trace_of(
      two_ranks(), {{{span_of(make_action(0, Kind::OPTIMIZER), 0, 0, 5)}, {}, {}}}, std::nullopt);
  EXPECT_EQ(predicted.find("queued_ns"), std::string::npos);
}

// A row that only a later iteration needs gets a name and a thread of its own
// before its first slice.
TEST(MeasuredTrace, LaterIterationsMayNeedMoreRows) {
  Iteration crowded;
  crowded.spans = {span_of(make_action(0, Kind::SEND_F, 0), 0, 7000, 9000, 1),
                   span_of(make_action(1, Kind::RECV_F, 0), 1, 7000, 9000, 1),
                   span_of(make_action(0, Kind::SEND_F, 1), 0, 8000, 9000, 1),
                   span_of(make_action(1, Kind::RECV_F, 1), 1, 8000, 9000, 1)};
  const std::string text =
      measured_trace_of(two_ranks(), {there_and_back(0, 0), crowded}, MeasuredRun{});
  std::map<std::pair<int, int>, std::string> names;
  std::map<std::string, std::pair<int, int>> threads;
  for (const Json& event : events_of(text)) {
    const std::pair<int, int> thread{event["pid"], event["tid"]};
    if (event["name"] == "thread_name") {
      EXPECT_TRUE(names.emplace(thread, event["args"]["name"]).second) << "named twice";
    } else if (event["ph"] == "X") {
      EXPECT_TRUE(names.contains(thread)) << event;
      threads[event["name"]] = thread;
    }
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names[threads["0SEND_F0"]], "send");
  EXPECT_EQ(names[threads["0SEND_F1"]], "send 2");
  EXPECT_EQ(names[threads["1RECV_F1"]], "receive 2");
  EXPECT_EQ(threads["0SEND_F1"].second, 4);
}

TEST(MeasuredTrace, LayersLieWithinTheirActions) {
  Iteration iteration = there_and_back(0, 0);
  const Action backward = make_action(1, Kind::B, 0);
  // In no order; the first starts with its action.
  iteration.layers = {{1, 0, 1, Kind::W, false, backward, 3000, 4000},
                      {1, 0, 1, Kind::F, true, backward, 2000, 2500},
                      {1, 0, 1, Kind::I, false, backward, 2500, 3000},
                      {0, 0, 0, Kind::F, false, make_action(0, Kind::F, 0), 0, 1000}};
  MeasuredRun run;
  run.layers = {"embedding \"wide\"", "block 1"};
  const std::string text = measured_trace_of(two_ranks(), {iteration}, run);
  std::vector<std::string> names;
  std::map<std::pair<int, int>, Json> action;  // the last of each thread
  for (const Json& event : events_of(text, "X")) {
    const std::pair<int, int> thread{event["pid"], event["tid"]};
    if (event["cat"] != "layer") {
      action[thread] = event;
      continue;
    }
    names.push_back(event["name"]);
    ASSERT_TRUE(action.contains(thread)) << "an action comes before its layers";
    const Json& parent = action[thread];
    EXPECT_GE(ns_of(event["ts"]), ns_of(parent["ts"]));
    EXPECT_LE(ns_of(event["ts"]) + ns_of(event["dur"]), ns_of(parent["ts"]) + ns_of(parent["dur"]));
    for (const char* key : {"stage", "microbatch", "iteration", "rank"}) {
      EXPECT_EQ(event["args"][key], parent["args"][key]) << key;
    }
    EXPECT_EQ(event["args"].contains("again"), event["name"] == "block 1 F again");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"embedding \"wide\" F", "block 1 F again", "block 1 I",
                                             "block 1 W"}));
}

// Samples say what the counters say; what no sample ever has is left out.
TEST(MeasuredTrace, MemoryIsWhatWasSampled) {
  TimelineFrame frame = two_ranks();
  frame.footprints.resize(2);
  frame.footprints[0].activation_bytes = 1;  // not what was measured
  const auto sample = [](int rank, std::int64_t time_ns, std::int64_t activations,
                         std::int64_t chunks) {
    MemorySample made;
    made.rank = rank;
    made.time_ns = time_ns;
    made.states.weights = 100 + rank;
    made.working.activations = activations;
    made.chunks = chunks;
    return made;
  };
  Iteration first = there_and_back(0, 0);
  first.samples = {sample(0, 0, 0, 0), sample(1, 0, 0, 0), sample(0, 10, 64, 1),
                   sample(0, 10, 80, 1), sample(0, 6000, 0, 0)};
  Iteration second = there_and_back(1, 7000);
  second.samples = {sample(0, 7000, 72, 1)};
  MeasuredRun run;
  run.largest_states.weights = 101;
  run.largest_working.activations = 80;
  const auto counters = events_of(measured_trace_of(frame, {first, second}, run), "C");
  std::vector<std::tuple<std::string, int, std::int64_t, Json>> got;
  got.reserve(counters.size());
  for (const Json& event : counters) {
    got.emplace_back(event["name"], event["pid"], ns_of(event["ts"]), event["args"]);
  }
  const auto memory = [](int weights, int activations) {
    return Json{{"weights", weights}, {"activations", activations}};
  };
  const std::vector<std::tuple<std::string, int, std::int64_t, Json>> want{
      {"memory", 1, 0, memory(100, 0)},          {"memory", 2, 0, memory(101, 0)},
      {"activations", 1, 10, {{"chunks", 1}}},   {"memory", 1, 10, memory(100, 80)},
      {"activations", 1, 6000, {{"chunks", 0}}}, {"memory", 1, 6000, memory(100, 0)},
      {"activations", 1, 7000, {{"chunks", 1}}}, {"memory", 1, 7000, memory(100, 72)}};
  EXPECT_EQ(got, want);
}

// Arrows never point back, whatever the clocks of two ranks say.
TEST(MeasuredTrace, ArrowsPointForward) {
  const Action sent = make_action(0, Kind::SEND_F, 0);
  const auto arrows = [&](std::int64_t start_ns, std::int64_t end_ns) {
    Iteration iteration;
    iteration.spans = {span_of(sent, 0, 500, 900), span_of(peer_of(sent), 1, start_ns, end_ns)};
    std::ranges::sort(iteration.spans, {}, &Span::start_ns);
    const std::string text = measured_trace_of(two_ranks(), {iteration}, MeasuredRun{});
    const auto starts = events_of(text, "s");
    const auto ends = events_of(text, "f");
    EXPECT_EQ(starts.size(), ends.size());
    if (starts.empty()) return std::pair<std::int64_t, std::int64_t>(-1, -1);
    EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
    return std::pair(ns_of(starts[0]["ts"]), ns_of(ends[0]["ts"]));
  };
  EXPECT_EQ(arrows(500, 900), std::pair(500L, 899L));
  EXPECT_EQ(arrows(100, 950), std::pair(500L, 949L)) << "a receive that waited from early on";
  EXPECT_EQ(arrows(100, 501), std::pair(500L, 500L));
  EXPECT_EQ(arrows(100, 500), std::pair(-1L, -1L));
  EXPECT_EQ(arrows(100, 300), std::pair(-1L, -1L));
}

}  // namespace
}  // namespace pipesim
