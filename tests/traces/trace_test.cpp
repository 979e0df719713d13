// The Chrome trace: parsed back, it must say what the timeline said, keep the
// rules of FORMAT.md, and allow a replay.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;

std::string trace_of(const RecordedRun& run, const std::string& metadata = "{}") {
  const testing::TemporaryFolder folder;
  OutputFile file(folder / "trace.json");
  ChromeTraceWriter writer(run, metadata, file);
  writer.add(run.spans);
  writer.finish();
  file.commit();
  return read_file(folder / "trace.json");
}

// "12.345" as it stands in the text, to integer nanoseconds.
std::int64_t to_ns(double us) { return static_cast<std::int64_t>(std::llround(us * 1000)); }

struct Fixture {
  Schedule schedule;
  Costs costs;
  RecordedRun timeline;
  std::string text;
  Json json;
};

Fixture random_fixture(std::mt19937_64& random) {
  Fixture f;
  f.schedule = testing::random_schedule(random);
  f.costs = testing::random_costs(random, f.schedule);
  f.timeline = record_run(f.schedule, f.costs);
  f.text = trace_of(f.timeline);
  f.json = Json::parse(f.text);
  return f;
}

TEST(Trace, HoldsEverySpanAndNothingElse) {
  std::mt19937_64 random(21);
  for (int i = 0; i < 100; ++i) {
    const Fixture f = random_fixture(random);
    std::multiset<std::tuple<std::string, int, std::int64_t, std::int64_t>> want, got;
    for (std::size_t s = 0; s < f.timeline.spans.size(); ++s) {
      const Span& span = f.timeline.spans[s];
      if (s > 0 && f.timeline.spans[s - 1].action.joined) continue;
      std::string name = to_text(span.action);
      if (span.action.joined) {
        name = "(" + name + ";" + to_text(f.timeline.spans[s + 1].action) + ")OVERLAP_F_B";
      }
      want.emplace(name, span.rank, span.start_ns, span.end_ns);
    }
    for (const Json& event : f.json["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const std::int64_t start = to_ns(event["ts"]);
      got.emplace(event["name"], event["args"]["rank"], start, start + to_ns(event["dur"]));
      EXPECT_EQ(event["pid"], event["args"]["rank"].get<int>() + 1);
    }
    ASSERT_EQ(got, want) << "case " << i;
  }
}

// Viewers that look at indices have ranks in order, and threads; those that do not take the thread
// that is numbered like its process for the main one and the others by number.
TEST(Trace, HasRanksInOrderAndComputeFirst) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 50; ++i) {
    const Fixture f = random_fixture(random);
    std::map<int, int> process_index;
    std::map<int, std::vector<std::pair<int, std::string>>> threads;  // of a process, as they come
    for (const Json& event : f.json["traceEvents"]) {
      if (event["ph"] != "M") continue;
      const int pid = event["pid"];
      const int tid = event["tid"];
      const Json& args = event["args"];
      if (event["name"] == "process_sort_index") process_index[pid] = args["sort_index"];
      if (event["name"] == "thread_name") threads[pid].emplace_back(tid, args["name"]);
      if (event["name"] == "thread_sort_index") {
        EXPECT_EQ(threads[pid].back().first, tid);
        EXPECT_EQ(args["sort_index"], tid);
      }
    }
    ASSERT_EQ(std::ssize(process_index), f.schedule.ranks());
    for (int rank = 0; rank < f.schedule.ranks(); ++rank) {
      EXPECT_EQ(process_index.at(rank + 1), rank);
      const auto& own = threads.at(rank + 1);
      EXPECT_EQ(own.front(), std::pair(rank + 1, std::string("compute")));
      EXPECT_TRUE(std::ranges::is_sorted(own, std::less(), &std::pair<int, std::string>::first));
      EXPECT_EQ(own.back().first - own.front().first + 1, std::ssize(own));
    }
  }
}

// Of chrome://tracing, by kind.
TEST(Trace, ColoursKinds) {
  const std::map<std::string, std::string> colours{
      {"F", "rail_response"}, {"B", "rail_idle"}, {"I", "rail_idle"}, {"W", "rail_load"}};
  std::map<std::string, int> seen;
  std::mt19937_64 random(24);
  for (int i = 0; i < 50; ++i) {
    const Fixture f = random_fixture(random);
    for (const Json& event : f.json["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const std::string kind = event["args"]["kind"];
      const auto own = colours.find(kind == "OVERLAP_F_B" ? "F" : kind);
      EXPECT_EQ(event["cname"], own == colours.end() ? "grey" : own->second) << kind;
      ++seen[kind];
    }
  }
  for (const char* kind : {"F", "B", "I", "W", "SEND_F", "RECV_B"})
    EXPECT_GT(seen[kind], 0) << kind;
}

TEST(Trace, KeepsTheRulesOfTheFormat) {
  std::mt19937_64 random(22);
  for (int i = 0; i < 100; ++i) {
    const Fixture f = random_fixture(random);
    std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> slices;
    std::map<std::int64_t, int> starts, ends;
    std::int64_t last_ts = 0;
    std::set<std::pair<int, int>> named;
    for (const Json& event : f.json["traceEvents"]) {
      const std::string ph = event["ph"];
      const std::pair<int, int> thread{event["pid"], event["tid"]};
      EXPECT_GT(thread.second, 0) << "tid 0 is the process itself";
      if (ph == "M") {
        if (event["name"] == "thread_name") named.insert(thread);
        continue;
      }
      const std::int64_t ts = to_ns(event["ts"]);
      EXPECT_GE(ts, last_ts) << "sorted by time";
      last_ts = ts;
      EXPECT_TRUE(named.contains(thread));
      if (ph == "X") slices[thread].emplace_back(ts, ts + to_ns(event["dur"]));
      if (ph == "s" || ph == "f") {
        EXPECT_TRUE(event["id"].is_number_integer());
        // Half open but for slices of no length: exactly one encloses it.
        const auto inside = std::ranges::count_if(slices[thread], [&](const auto& slice) {
          return slice.first <= ts && (ts < slice.second || slice.first == slice.second) &&
                 ts <= slice.second;
        });
        EXPECT_EQ(inside, 1) << event.dump();
        ++(ph == "s" ? starts : ends)[event["id"].get<std::int64_t>()];
      }
    }
    EXPECT_EQ(starts, ends);
    for (const auto& [id, count] : starts) EXPECT_EQ(count, 1) << "flow " << id;
    for (auto& [thread, own] : slices) {
      std::ranges::sort(own);
      for (std::size_t s = 1; s < own.size(); ++s) {
        EXPECT_LE(own[s - 1].second, own[s].first) << "slices of a thread overlap";
      }
    }
    // Exactly three decimals, nothing in exponents.
    for (std::size_t at = f.text.find("\"ts\":"); at != std::string::npos;
         at = f.text.find("\"ts\":", at + 1)) {
      const std::size_t end = f.text.find_first_not_of("0123456789", at + 5);
      EXPECT_EQ(f.text[end], '.');
      EXPECT_EQ(f.text.find_first_not_of("0123456789", end + 1), end + 4);
    }
    if (HasFailure()) break;
  }
}

// The counters tell the metrics' story, in every mode and category.
TEST(Trace, CountersPeakWhereTheMetricsDo) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 1000; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    costs.stages[0].activation_bytes += 1;
    for (StageCosts& stage : costs.stages) stage.weight_bytes = testing::pick(random, 0, 9);
    // The trace says what is left at the end of an instant; where things take
    // no time, the list may have come to more within it.
    const bool all_takes_time = i % 8 > 0;
    if (all_takes_time) testing::take_time(costs);
    SimulationOptions options;
    options.transfers.mode = static_cast<P2p>(testing::pick(random, 0, 3));
    options.transfers.eager_limit_bytes = testing::pick(random, 0, 60);
    if (testing::pick(random, 0, 3) == 0) costs.compute_slowdown_ppm = 300'000;
    const Metrics metrics = simulate(schedule, costs, options);
    const auto states = costs.states(schedule.placement);
    const Json json = Json::parse(trace_of(record_run(schedule, costs, options)));
    const auto ranks = static_cast<std::size_t>(schedule.ranks());
    std::vector<std::int64_t> chunks(ranks), kept(ranks), all(ranks);
    std::map<std::pair<std::size_t, std::string>, std::int64_t> last;
    for (const Json& event : json["traceEvents"]) {
      if (event["ph"] != "C") continue;
      const auto rank = event["pid"].get<std::size_t>() - 1;
      const Json& args = event["args"];
      std::int64_t total = 0;
      for (const auto& [key, value] : args.items()) {
        EXPECT_GE(value, 0) << event;
        total += value.get<std::int64_t>();
        last[{rank, key}] = value;
      }
      if (event["name"] == "activations") {
        chunks[rank] = std::max(chunks[rank], total);
      } else {
        ASSERT_EQ(event["name"], "memory");
        all[rank] = std::max(all[rank], total);
        kept[rank] = std::max(kept[rank], args["activations"].get<std::int64_t>() +
                                              args.value("weight_residue", std::int64_t{0}));
      }
    }
    SCOPED_TRACE(to_csv(schedule));
    for (std::size_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(chunks[r], metrics.ranks[r].peak_activation_chunks);
      if (all_takes_time) {
        EXPECT_EQ(kept[r], metrics.ranks[r].peak_activation_bytes);
        EXPECT_EQ(all[r], metrics.ranks[r].peak_memory.total + states[r].total());
      }
    }
    for (const auto& [key, value] : last) {
      EXPECT_EQ(value, key.second == "weights" ? states[key.first].weights : 0)
          << "memory is left at the end";
    }
    if (HasFailure()) break;
  }
}

TEST(Trace, SameBytesEveryTime) {
  std::mt19937_64 one(24);
  std::mt19937_64 two(24);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(random_fixture(one).text, random_fixture(two).text);
}

// A cell of no length, whose results leave at the instant of its start.
TEST(Trace, OverlappedCellsStayTogether) {
  const Schedule schedule = parse_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n", "o.csv");
  Costs costs;
  costs.stages.resize(2);
  costs.stages[0].overlap_ns = 0;
  const Json json = Json::parse(trace_of(record_run(schedule, costs)));
  std::multiset<std::string> names;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "X") names.insert(event["name"]);
  }
  EXPECT_EQ(names.count("(0F1;0B0)OVERLAP_F_B"), 1U);
  EXPECT_EQ(names.count("0SEND_F1"), 1U);
  EXPECT_EQ(names.count("0B0"), 0U);
}

TEST(Trace, AsManyLanesAsAreInFlight) {
  const Schedule schedule = generate({"gpipe", 2, 70'000});
  Costs costs;
  costs.stages.resize(2);
  for (StageCosts& stage : costs.stages) stage.forward_ns = 1;
  costs.p2p.latency_ns = 1'000'000'000;
  const std::string text = trace_of(record_run(schedule, costs));
  EXPECT_NE(text.find("\"name\":\"send 70000\""), std::string::npos);
  EXPECT_EQ(text.find("\"name\":\"send 70001\""), std::string::npos);
}

TEST(Trace, OverlappedCellsNameBothActions) {
  const Schedule schedule = parse_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", "o.csv");
  Costs costs;
  costs.stages = {StageCosts{}};
  costs.stages[0].forward_ns = 1500;
  const Json json = Json::parse(trace_of(record_run(schedule, costs)));
  const auto& events = json["traceEvents"];
  const auto found = std::ranges::find_if(
      events, [](const Json& e) { return e["name"] == "(0F1;0B0)OVERLAP_F_B"; });
  ASSERT_NE(found, events.end());
  EXPECT_EQ((*found)["args"]["kind"], "OVERLAP_F_B");
  EXPECT_EQ((*found)["args"]["microbatch"], 1);
  EXPECT_EQ((*found)["args"]["backward_microbatch"], 0);
}

}  // namespace
}  // namespace pipesim
