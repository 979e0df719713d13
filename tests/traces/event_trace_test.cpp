// Any Chrome trace as slices on rows, counters and arrows.
#include "traces/read/event_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "tests/errors.h"
#include "tests/files.h"
#include "tests/profiles.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/read/event_rows.h"

namespace pipesim {
namespace {

using testing::Json;
using testing::TemporaryFolder;
using Texts = std::vector<std::string>;

EventTrace event_trace_of(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "t.json", text);
  return read_event_trace(folder / "t.json");
}
EventTrace read_events(const std::string& events) { return event_trace_of("[" + events + "]"); }

std::string text(const EventTrace& trace, const Slice& slice) {
  return std::string(trace.text(slice.name));
}

// "thread 1/0 a 10..20": track, row, name and times of each slice.
Texts slices(const EventTrace& trace) {
  Texts texts;
  for (const Slice& slice : trace.slices) {
    texts.push_back(trace.tracks[slice.track].name + "/" + std::to_string(slice.row) + " " +
                    text(trace, slice) + " " + std::to_string(slice.start_ns) + ".." +
                    std::to_string(slice.end_ns));
  }
  return texts;
}

Texts arrows(const EventTrace& trace) {
  Texts texts;
  for (const EventArrow& arrow : trace.arrows) {
    texts.push_back(text(trace, trace.slices[arrow.from]) + " > " +
                    text(trace, trace.slices[arrow.to]));
  }
  return texts;
}

std::int64_t warned(const EventTrace& trace, std::string_view what) {
  std::int64_t count = 0;
  for (const Warnings::Kind& kind : trace.warnings.kinds()) {
    if (kind.what.find(what) != std::string::npos) count += kind.count;
  }
  return count;
}

// What holds of every trace, whatever is in it.
void expect_sound(const EventTrace& trace) {
  std::vector<int> rows(trace.tracks.size(), 0);
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    const Slice& slice = trace.slices[i];
    ASSERT_LT(slice.track, trace.tracks.size());
    ASSERT_LT(slice.row, trace.tracks[slice.track].rows);
    ASSERT_LT(std::max({slice.name, slice.arguments, std::uint32_t{slice.category}}),
              trace.texts.size());
    rows[slice.track] = std::max(rows[slice.track], slice.row + 1);
    EXPECT_LE(slice.start_ns, slice.end_ns);
    if (i == 0) continue;
    const Slice& before = trace.slices[i - 1];
    ASSERT_LE(std::tuple(before.track, before.row, before.start_ns),
              std::tuple(slice.track, slice.row, slice.start_ns));
    if (before.track == slice.track && before.row == slice.row) {
      EXPECT_LE(before.end_ns, slice.start_ns) << slices(trace)[i];
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], trace.tracks[i].rows);
  EXPECT_TRUE(std::ranges::is_sorted(
      trace.arrows, {}, [&](const EventArrow& arrow) { return trace.slices[arrow.from].end_ns; }));
  for (const CounterTrack& counter : trace.counters) {
    EXPECT_LE(counter.track, trace.tracks.size());
    EXPECT_TRUE(std::ranges::is_sorted(counter.samples, {}, &CounterTrack::Sample::time_ns));
  }
  std::vector<std::string> texts = trace.texts;
  ASSERT_FALSE(texts.empty());
  EXPECT_EQ(texts.front(), "");
  std::ranges::sort(texts);
  EXPECT_EQ(std::ranges::adjacent_find(texts), texts.end());
}

// Facts: counted in the files' JSON by other means. Rows: the most slices that hold
// one instant, as no two of these files overlap without one holding the other.
struct Golden {
  const char* name;
  std::size_t slices, tracks;
  int rows;
  std::size_t arrows;
  std::int64_t events;
};

TEST(EventTrace, HoldsWhatTheProfilerWrote) {
  for (const Golden& golden : {Golden{"hta_amd_mi250.json.gz", 115, 6, 17, 20, 220},
                               Golden{"hta_backward_thread.json", 7, 3, 7, 0, 7},
                               Golden{"hta_event_sync.json.gz", 59, 8, 10, 8, 149}}) {
    SCOPED_TRACE(golden.name);
    const std::string path = testing::source_file(std::string("tests/data/traces/") + golden.name);
    const EventTrace trace = read_event_trace(path);
    expect_sound(trace);
    EXPECT_EQ(trace.name, path);
    EXPECT_EQ(trace.events, golden.events);
    EXPECT_EQ(trace.slices.size(), golden.slices);
    EXPECT_EQ(trace.tracks.size(), golden.tracks);
    int rows = 0;
    for (const EventTrack& track : trace.tracks) rows += track.rows;
    EXPECT_EQ(rows, golden.rows);
    EXPECT_EQ(trace.arrows.size(), golden.arrows);
    EXPECT_TRUE(trace.counters.empty());
    EXPECT_TRUE(trace.warnings.empty()) << trace.warnings.text();
    EXPECT_FALSE(trace.truncated);
  }
}

TEST(EventTrace, NamesTracksAsTheProfilerDoes) {
  const EventTrace trace =
      read_event_trace(testing::source_file("tests/data/traces/hta_event_sync.json.gz"));
  Texts names;
  for (const EventTrack& track : trace.tracks) names.push_back(track.process + ": " + track.name);
  EXPECT_EQ(names,
            (Texts{"python3.10 CPU 3727853: thread 3727853 (pt_main_thread)",
                   "python3.10 GPU 0: Device 0", "python3.10 GPU 0: stream 20",
                   "python3.10 GPU 0: stream 24", "python3.10 GPU 0: stream 28",
                   "Spans: PyTorch Profiler", ": events", "Traces: Trace PyTorch Profiler"}));
  // From launches to what they launched.
  for (const EventArrow& arrow : trace.arrows) {
    const Slice& from = trace.slices[arrow.from];
    const Slice& to = trace.slices[arrow.to];
    EXPECT_EQ(trace.tracks[from.track].process, "python3.10 CPU 3727853");
    EXPECT_EQ(trace.tracks[to.track].process, "python3.10 GPU 0");
    EXPECT_EQ(text(trace, from).substr(0, 4), "cuda");
    const auto correlation = [&](const Slice& slice) {
      const std::string lines(trace.text(slice.arguments));
      const std::size_t at = lines.find("correlation: ");
      return at == std::string::npos ? "none" : lines.substr(at, lines.find('\n', at) - at);
    };
    EXPECT_EQ(correlation(from), correlation(to));
    EXPECT_NE(correlation(from), "none");
  }
}

// Random X events, which overlap as they like: each is there, once, and a slice that
// holds another is above it.
TEST(EventTrace, KeepsEverySliceOnARowOfItsOwn) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    std::multimap<std::tuple<std::string, std::int64_t, std::int64_t>, std::string> expected;
    std::string events;
    const std::int64_t most = round % 2 == 0 ? 30 : 1000;
    for (int i = 0; i < 200; ++i) {
      const std::string tid = std::to_string(testing::pick(random, 1, 3));
      const std::int64_t ts = testing::pick(random, -20, most);
      const std::int64_t dur = testing::pick(random, 0, round % 3 == 0 ? 3 : most / 3);
      const std::string name = "n" + std::to_string(i);
      expected.insert({{"thread " + tid, ts * 1000, (ts + dur) * 1000}, name});
      events += (i == 0 ? "" : ",") + Json{{"ph", "X"},    {"pid", 1}, {"tid", tid},
                                           {"name", name}, {"ts", ts}, {"dur", dur}}
                                          .dump();
    }
    const EventTrace trace = read_events(events);
    expect_sound(trace);
    ASSERT_EQ(trace.slices.size(), expected.size());
    for (const Slice& slice : trace.slices) {
      const auto [begin, end] =
          expected.equal_range({trace.tracks[slice.track].name, slice.start_ns, slice.end_ns});
      const auto found = std::find_if(
          begin, end, [&](const auto& entry) { return entry.second == text(trace, slice); });
      ASSERT_NE(found, end);
      expected.erase(found);
      for (const Slice& other : trace.slices) {
        const bool holds = slice.track == other.track && slice.start_ns < other.start_ns &&
                           slice.end_ns > other.end_ns;
        if (holds) {
          EXPECT_LT(slice.row, other.row);
        }
      }
    }
    EXPECT_TRUE(expected.empty());
  }
}

TEST(EventTrace, WhatNeedsTooManyRowsGoesOn) {
  LargeVector<Slice> all;
  for (int i = 0; i < 10; ++i) all.push_back({i, 100 + i, 0, 0, 0, 0, 0});
  LargeVector<Slice> rest;
  EXPECT_EQ(lay_out(all, rest, 4), 4);
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(rest.size(), 6U);
  EXPECT_EQ(rest.front().start_ns, 4);
}

TEST(EventTrace, BeginsAndEnds) {
  // One thread after the other, as buffers are written; times of both interleave.
  const EventTrace trace = read_events(R"(
    {"ph":"B","pid":1,"tid":1,"name":"outer","ts":1,"args":{"x":1}},
    {"ph":"B","pid":1,"tid":1,"name":"inner","ts":2},
    {"ph":"E","pid":1,"tid":1,"ts":4,"args":{"result":"fine"}},
    {"ph":"E","pid":1,"tid":1,"name":"outer","ts":9,"args":{"y":2}},
    {"ph":"B","pid":1,"tid":2,"name":"same","ts":3},
    {"ph":"B","pid":1,"tid":2,"name":"below","ts":3},
    {"ph":"E","pid":1,"tid":2,"ts":5},
    {"ph":"E","pid":1,"tid":2,"ts":5})");
  EXPECT_EQ(slices(trace), (Texts{"thread 1/0 outer 1000..9000", "thread 1/1 inner 2000..4000",
                                  "thread 2/0 same 3000..5000", "thread 2/1 below 3000..5000"}));
  EXPECT_EQ(trace.text(trace.slices[0].arguments), "x: 1");
  EXPECT_EQ(trace.text(trace.slices[1].arguments), "result: fine");
  EXPECT_TRUE(trace.warnings.empty()) << trace.warnings.text();
}

TEST(EventTrace, BeginsWithoutEnds) {
  const EventTrace trace = read_events(R"(
    {"ph":"E","pid":1,"tid":1,"name":"early","ts":0},
    {"ph":"B","pid":1,"tid":1,"name":"a","ts":1},
    {"ph":"B","pid":1,"tid":1,"name":"b","ts":2},
    {"ph":"B","pid":1,"tid":1,"name":"lost","ts":3},
    {"ph":"E","pid":1,"tid":1,"name":"b","ts":5},
    {"ph":"X","pid":1,"tid":2,"name":"last","ts":6,"dur":4})");
  expect_sound(trace);
  EXPECT_EQ(slices(trace), (Texts{"thread 1/0 a 1000..10000", "thread 1/1 b 2000..5000",
                                  "thread 1/2 lost 3000..5000", "thread 2/0 last 6000..10000"}));
  EXPECT_EQ(warned(trace, "did not begin"), 1);
  EXPECT_EQ(warned(trace, "with the slice around them"), 1);
  EXPECT_EQ(warned(trace, "until the end of the trace"), 1);
}

TEST(EventTrace, WhatRunsBesideThreads) {
  const EventTrace trace = read_events(R"(
    {"ph":"b","pid":1,"tid":1,"cat":"net","name":"fetch","id":"0x1","ts":1},
    {"ph":"b","pid":1,"tid":2,"cat":"net","name":"fetch","id":"0x2","ts":2},
    {"ph":"b","pid":1,"tid":1,"cat":"net","name":"dns","id":"0x1","ts":3},
    {"ph":"n","pid":1,"tid":1,"cat":"net","name":"found","id":"0x1","ts":4},
    {"ph":"e","pid":1,"tid":9,"cat":"net","name":"dns","id":"0x1","ts":5},
    {"ph":"e","pid":1,"tid":1,"cat":"net","name":"fetch","id":"0x1","ts":7},
    {"ph":"e","pid":1,"tid":1,"cat":"net","name":"fetch","id":"0x2","ts":8},
    {"ph":"S","pid":1,"tid":1,"cat":"old","name":"task","id":7,"ts":1},
    {"ph":"T","pid":1,"tid":1,"cat":"old","name":"task","id":7,"ts":2},
    {"ph":"F","pid":1,"tid":1,"cat":"old","name":"task","id":7,"ts":3},
    {"ph":"b","pid":1,"tid":1,"cat":"net","name":"local","id2":{"local":"0x1"},"ts":20},
    {"ph":"e","pid":1,"tid":1,"cat":"net","name":"local","id2":{"local":"0x1"},"ts":21})");
  expect_sound(trace);
  EXPECT_EQ(slices(trace),
            (Texts{"fetch/0 fetch 1000..7000", "fetch/1 fetch 2000..8000", "fetch/2 dns 3000..5000",
                   "fetch/3 found 4000..4000", "local/0 local 20000..21000",
                   "task/0 task 1000..3000", "task/1 task 2000..2000"}));
  EXPECT_TRUE(trace.warnings.empty()) << trace.warnings.text();
}

TEST(EventTrace, InstantsAreSlicesOfNoLength) {
  const EventTrace trace = read_events(R"(
    {"ph":"X","pid":"","tid":"","name":"x","ts":1,"dur":2},
    {"ph":"i","pid":"","tid":"","name":"i","ts":1,"s":"g"},
    {"ph":"I","pid":"","tid":"","name":"I","ts":2},
    {"ph":"R","pid":"","tid":"","name":"R","ts":3},
    {"ph":"P","pid":"","tid":"","name":"P","ts":4},
    {"ph":"N","pid":"","tid":"","name":"N","id":1,"ts":5},
    {"ph":"O","pid":"","tid":"","name":"O","id":1,"ts":6},
    {"ph":"D","pid":"","tid":"","name":"D","id":1,"ts":7},
    {"ph":"c","pid":"","tid":"","name":"c","ts":8},
    {"ph":"i","pid":"","tid":"","name":"when"},
    {"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"nobody"}})");
  expect_sound(trace);
  EXPECT_EQ(slices(trace),
            (Texts{"events/0 x 1000..3000", "events/0 R 3000..3000", "events/0 P 4000..4000",
                   "events/0 N 5000..5000", "events/0 O 6000..6000", "events/0 D 7000..7000",
                   "events/1 i 1000..1000", "events/1 I 2000..2000"}));
  EXPECT_EQ(warned(trace, "of phase 'c'"), 1);
  EXPECT_EQ(warned(trace, "without ts"), 1);
  EXPECT_EQ(trace.events, 11);
}

// Three kernels and the launches that caused them; flows as odd as they come.
const std::string launches = R"(
    {"ph":"X","pid":1,"tid":1,"name":"call","ts":0,"dur":100},
    {"ph":"X","pid":1,"tid":1,"name":"launch1","ts":10,"dur":5},
    {"ph":"X","pid":1,"tid":1,"name":"launch2","ts":20,"dur":5},
    {"ph":"X","pid":0,"tid":7,"name":"kernel1","ts":30,"dur":5},
    {"ph":"X","pid":0,"tid":7,"name":"kernel2","ts":40,"dur":5},
    {"ph":"X","pid":0,"tid":7,"name":"kernel3","ts":50,"dur":5})";

std::string flow(char phase, int id, int tid, int ts, const std::string& more = "") {
  return std::string(",{\"ph\":\"") + phase + R"(","cat":"ac2g","name":"ac2g","pid":)" +
         (tid == 7 ? "0" : "1") + ",\"tid\":" + std::to_string(tid) +
         ",\"id\":" + std::to_string(id) + ",\"ts\":" + std::to_string(ts) + more + "}";
}

TEST(EventTrace, Arrows) {
  const std::string enclosing = R"(,"bp":"e")";
  const auto read = [&](const std::string& flows) {
    const EventTrace trace = read_events(launches + flows);
    expect_sound(trace);
    EXPECT_EQ(trace.slices.size(), 6U);
    return arrows(trace);
  };
  // From the innermost; to what holds the time, or else to what comes next.
  EXPECT_EQ(read(flow('s', 1, 1, 10) + flow('f', 1, 7, 30, enclosing)), Texts{"launch1 > kernel1"});
  EXPECT_EQ(read(flow('s', 1, 1, 12) + flow('f', 1, 7, 32)), Texts{"launch1 > kernel2"});
  EXPECT_EQ(read(flow('s', 1, 1, 12) + flow('f', 1, 7, 30)), Texts{"launch1 > kernel1"});
  EXPECT_EQ(read(flow('s', 1, 1, 17) + flow('f', 1, 7, 32, enclosing)), Texts{"call > kernel1"});
  // At its very end.
  EXPECT_EQ(read(flow('s', 1, 7, 35) + flow('f', 1, 7, 54, enclosing)), Texts{"kernel1 > kernel3"});
  // The end comes first in the file, or ends are more than beginnings, or none fits.
  EXPECT_EQ(read(flow('f', 1, 7, 30, enclosing) + flow('s', 1, 1, 10)), Texts{"launch1 > kernel1"});
  EXPECT_EQ(read(flow('s', 1, 1, 10) + flow('f', 1, 7, 30, enclosing) +
                 flow('f', 1, 7, 50, enclosing) + flow('f', 9, 7, 40, enclosing)),
            (Texts{"launch1 > kernel1", "launch1 > kernel3"}));
  // Clocks that are off: the end is before the beginning.
  EXPECT_EQ(read(flow('s', 1, 7, 41) + flow('f', 1, 1, 21, enclosing)), Texts{"kernel2 > launch2"});
  // Step by step; the same number again later; two numbers.
  EXPECT_EQ(read(flow('s', 1, 1, 10) + flow('t', 1, 7, 30) + flow('f', 1, 7, 50, enclosing)),
            (Texts{"launch1 > kernel1", "kernel1 > kernel3"}));
  EXPECT_EQ(
      read(flow('s', 1, 1, 10) + flow('f', 1, 7, 40, enclosing) + flow('s', 1, 7, 42) +
           flow('f', 1, 7, 50, enclosing) + flow('s', 2, 1, 20) + flow('f', 2, 7, 30, enclosing)),
      (Texts{"launch1 > kernel2", "launch2 > kernel1", "kernel2 > kernel3"}));
  // Into nothing, from nothing, and to itself.
  EXPECT_EQ(read(flow('s', 1, 1, 10) + flow('f', 1, 3, 30)), Texts{});
  EXPECT_EQ(read(flow('s', 1, 3, 10) + flow('f', 1, 7, 30)), Texts{});
  EXPECT_EQ(read(flow('s', 1, 1, 11) + flow('f', 1, 1, 12, enclosing)), Texts{});
}

TEST(EventTrace, CountersOneTrackAKey) {
  const EventTrace trace = read_events(R"(
    {"ph":"C","pid":1,"name":"memory","ts":3,"args":{"used":2,"free":"7.5"}},
    {"ph":"C","pid":1,"name":"memory","ts":1,"args":{"used":1}},
    {"ph":"C","pid":2,"name":"load","ts":1,"args":{"value":-4e2,"unit":"%"}},
    {"ph":"C","pid":1,"name":"load","id":5,"ts":1,"args":{"value":NaN}},
    {"ph":"C","pid":1,"name":"load","id":6,"ts":1,"args":{"value":3}},
    {"ph":"X","pid":1,"tid":4,"name":"x","ts":1,"dur":2},
    {"ph":"X","pid":1,"tid":3,"name":"x","ts":1,"dur":2},
    {"ph":"X","pid":0,"tid":3,"name":"x","ts":1,"dur":2})");
  expect_sound(trace);
  Texts texts;
  for (const CounterTrack& counter : trace.counters) {
    texts.push_back(counter.name + " on " + std::to_string(counter.track) + ":");
    for (const auto& [time, value] : counter.samples) {
      texts.back() += " " + std::to_string(time) + "=" + std::to_string(value).substr(0, 4);
    }
  }
  EXPECT_EQ(texts, (Texts{"memory used on 1: 1000=1.00 3000=2.00", "memory free on 1: 3000=7.50",
                          "load on 3: 1000=-400", "load 6 on 1: 1000=3.00"}));
  EXPECT_EQ(warned(trace, "counters that are not numbers"), 2);
}

TEST(EventTrace, ACounterWithAnIdIsNoOtherOfThatName) {
  const EventTrace trace =
      read_events(R"({"ph":"C","ts":1,"pid":1,"name":"a 1","args":{"v":1}},)"
                  R"({"ph":"C","ts":1,"pid":1,"name":"a","id":1,"args":{"v":2}})");
  ASSERT_EQ(trace.counters.size(), 2U);
  EXPECT_EQ(trace.counters[0].name, "a 1");
  EXPECT_EQ(trace.counters[1].name, "a 1");
}

TEST(EventTrace, NamesAndOrders) {
  const EventTrace trace = read_events(R"(
    {"ph":"X","pid":3,"tid":10,"name":"x","ts":1,"dur":2,"cat":"work"},
    {"ph":"X","pid":3,"tid":9,"name":"work","ts":1,"dur":2},
    {"ph":"X","pid":20,"tid":"main","name":"x","ts":1,"dur":2,"cat":"work"},
    {"ph":"X","pid":7,"tid":1,"name":"x","ts":1,"dur":2,"args":{"a":{"b":1},"l":[1],"t":"u"}},
    {"ph":"M","name":"process_name","pid":7,"args":{"name":"server"}},
    {"ph":"M","name":"process_sort_index","pid":7,"args":{"sort_index":-1}},
    {"ph":"M","name":"process_name","pid":3,"args":{"name":"python 3"}},
    {"ph":"M","name":"thread_name","pid":3,"tid":9,"args":{"name":"pool"}},
    {"ph":"M","name":"thread_sort_index","pid":3,"tid":9,"args":{"sort_index":2}})");
  expect_sound(trace);
  Texts names;
  for (const EventTrack& track : trace.tracks) names.push_back(track.process + ": " + track.name);
  EXPECT_EQ(names,
            (Texts{"server 7: thread 1", "python 3: thread 10", "python 3: pool", "20: main"}));
  EXPECT_EQ(trace.text(trace.slices[0].arguments), "a.b: 1\nt: u");
  EXPECT_EQ(trace.text(trace.slices[1].category), "work");
  EXPECT_EQ(trace.text(trace.slices[2].name), "work");
  EXPECT_EQ(trace.text(trace.slices[2].category), "");
}

TEST(EventTrace, KeepsArgumentsWithinABudget) {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "t.json");
    file << "[";
    for (int i = 0; i < 70; ++i) {
      file << R"({"ph":"X","pid":1,"tid":1,"ts":)" << i << R"(,"dur":1,"name":"x","args":{"a":")"
           << std::string(std::size_t{1} << 20, 'a') << i << "\"}},\n";
    }
    file << R"({"ph":"X","pid":1,"tid":1,"ts":99,"dur":1,"name":"x","args":{"a":1}}])";
  }
  const EventTrace trace = read_event_trace(folder / "t.json");
  EXPECT_EQ(warned(trace, "arguments beyond the first 64.0 MiB"), 7);
  EXPECT_EQ(std::ranges::count(trace.slices, 0U, &Slice::arguments), 7);
  EXPECT_EQ(trace.text(trace.slices.back().arguments), "a: 1");
}

TEST(EventTrace, OfAFileCutOff) {
  const EventTrace trace = event_trace_of(R"({"traceEvents":[
    {"ph":"X","pid":1,"tid":1,"name":"x","ts":1,"dur":2},{"ph":"X","pid":1,)");
  EXPECT_TRUE(trace.truncated);
  EXPECT_EQ(warned(trace, "ends in the middle, after 1 complete event"), 1);
  EXPECT_EQ(trace.slices.size(), 1U);
}

TEST(EventTrace, OfNoTrace) {
  const std::string chakra = testing::input_error_of(
      [] { read_event_trace(testing::source_file("tests/data/traces/chakra_graph.json")); });
  EXPECT_NE(chakra.find("an execution trace"), std::string::npos) << chakra;
  EXPECT_NE(testing::input_error_of([] { read_event_trace("none.json"); }), testing::no_error);
  EXPECT_TRUE(read_events("").slices.empty());
}

}  // namespace
}  // namespace pipesim
