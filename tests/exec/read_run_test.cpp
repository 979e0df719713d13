// Trace files as runs: what was written comes back, and what is odd is said.
#include "traces/read/read_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/engine/record_run.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"

namespace pipesim {

bool operator==(const Span& a, const Span& b) {
  const auto all = [](const Span& s) {
    return std::tuple(s.rank, s.iteration, s.start_ns, s.end_ns, s.input_sent_ns,
                      s.input_arrival_ns, s.bytes, s.queued_ns, s.preempted_ns);
  };
  return a.action == b.action && all(a) == all(b);
}

void PrintTo(const Span& span, std::ostream* out) {
  *out << to_text(span.action) << (span.action.joined ? "+" : "") << " rank " << span.rank
       << " iteration " << span.iteration << " " << span.start_ns << ".." << span.end_ns
       << " input " << span.input_sent_ns << ".." << span.input_arrival_ns << " bytes "
       << span.bytes << " queued " << span.queued_ns << " taken " << span.preempted_ns;
}

bool operator==(const LayerSpan& a, const LayerSpan& b) {
  const auto all = [](const LayerSpan& l) {
    return std::tuple(l.rank, l.iteration, l.layer, l.kind, l.again, l.start_ns, l.end_ns,
                      l.preempted_ns);
  };
  return a.action == b.action && all(a) == all(b);
}

namespace {

using nlohmann::ordered_json;
using testing::TemporaryFolder;

std::int64_t warned(const RecordedRun& run, std::string_view what) {
  std::int64_t count = 0;
  for (const Warnings::Kind& kind : run.warnings.kinds()) {
    if (kind.what.find(what) != std::string::npos) count += kind.count;
  }
  return count;
}

std::vector<Span> all(const RecordedRun& run) { return {run.spans.begin(), run.spans.end()}; }

RecordedRun read_text(const std::string& text, const ReadOptions& options = {}) {
  const TemporaryFolder folder;
  write_file(folder / "run.json", text);
  return read_run({folder / "run.json"}, options);
}

struct Predicted {
  Schedule schedule;
  Costs costs;
  SimulationOptions options;
  RecordedRun timeline;
  std::string trace;
};

Predicted predict_and_write(const Schedule& schedule, const Costs& costs,
                            const SimulationOptions& options = {}) {
  Predicted made{schedule, costs, options, record_run(schedule, costs, options), {}};
  const TemporaryFolder folder;
  OutputFile file(folder / "t.json");
  write_chrome_trace(made.timeline, file);
  file.commit();
  made.trace = read_file(folder / "t.json");
  return made;
}

Predicted random_prediction(std::mt19937_64& random) {
  const Schedule schedule = testing::random_schedule(random);
  SimulationOptions options;
  options.transfers.mode = static_cast<P2p>(testing::pick(random, 0, 3));
  options.transfers.eager_limit_bytes = testing::pick(random, 0, 60);
  return predict_and_write(schedule, testing::random_costs(random, schedule), options);
}

// Two ranks, two microbatches, everything of a length of its own.
Predicted small_prediction() {
  Costs costs = testing::costs_of(2, 1000, 2000, 100);
  for (StageCosts& stage : costs.stages) stage.output_bytes = 50;
  return predict_and_write(generate({"1f1b", 2, 2}), costs);
}

// The trace with something changed.
template <typename Change>
std::string changed(const std::string& trace, Change change) {
  ordered_json json = ordered_json::parse(trace);
  change(json);
  return json.dump();
}
// With something done to every X event.
template <typename Change>
std::string slices_changed(const std::string& trace, Change change) {
  return changed(trace, [&](ordered_json& json) {
    for (ordered_json& event : json["traceEvents"]) {
      if (event["ph"] == "X") change(event);
    }
  });
}
// Without the events that `is_odd` says true of.
template <typename IsOdd>
std::string without(const std::string& trace, IsOdd is_odd) {
  return changed(trace, [&](ordered_json& json) {
    ordered_json kept = ordered_json::array();
    for (const ordered_json& event : json["traceEvents"]) {
      if (!is_odd(event)) kept.push_back(event);
    }
    json["traceEvents"] = kept;
  });
}
bool is_slice(const ordered_json& event, std::string_view name) {
  return event["ph"] == "X" && event["name"] == name;
}

TEST(ReadRun, APredictionComesBackAsItWas) {
  std::mt19937_64 random(71);
  for (int i = 0; i < 300; ++i) {
    const Predicted made = random_prediction(random);
    const RecordedRun run = read_text(made.trace);
    SCOPED_TRACE(to_csv(made.schedule));
    ASSERT_EQ(all(run), all(made.timeline)) << "case " << i;
    EXPECT_TRUE(run.warnings.empty()) << run.warnings.text();
    EXPECT_EQ(run.ranks, made.timeline.ranks);
    EXPECT_EQ(run.microbatches, made.timeline.microbatches);
    EXPECT_EQ(run.chunk_of_stage, made.timeline.chunk_of_stage);
    EXPECT_EQ(run.about.rank_of_stage, made.schedule.placement.rank_of_stage());
    EXPECT_EQ(run.about.source, Source::predicted);
    EXPECT_EQ(run.about.p2p, p2p_name(made.options.transfers.mode));
    EXPECT_EQ(run.about.eager_limit_bytes, made.options.transfers.eager_limit_bytes);
    EXPECT_EQ(std::ssize(run.about.program), run.ranks);
    EXPECT_EQ(ordered_json::parse(run.about.costs_json), ordered_json::parse(to_json(made.costs)));
    const Metrics expected = simulate(made.schedule, made.costs, made.options);
    ASSERT_EQ(run.iterations.size(), 1U);
    EXPECT_EQ(run.iterations[0].makespan_ns, expected.makespan_ns);
    const Metrics metrics = run.metrics(0);
    EXPECT_EQ(metrics.makespan_ns, expected.makespan_ns);
    for (std::size_t r = 0; r < expected.ranks.size(); ++r) {
      EXPECT_EQ(metrics.ranks[r].busy_ns, expected.ranks[r].busy_ns);
      EXPECT_EQ(metrics.ranks[r].bubble.total_ns(), expected.ranks[r].bubble.total_ns());
      EXPECT_EQ(metrics.ranks[r].bubble.p2p_ns, expected.ranks[r].bubble.p2p_ns);
      EXPECT_EQ(metrics.ranks[r].bubble.warmup_ns, expected.ranks[r].bubble.warmup_ns);
      EXPECT_EQ(metrics.ranks[r].peak_activation_chunks, expected.ranks[r].peak_activation_chunks);
    }
    if (HasFailure()) break;
  }
}

// What counts is in args: names, threads and the order of events and members may
// change, numbers be strings, metadata come last.
TEST(ReadRun, WrittenAgainItIsTheSame) {
  std::mt19937_64 random(72);
  for (int i = 0; i < 50; ++i) {
    const Predicted made = random_prediction(random);
    ordered_json json = ordered_json::parse(made.trace);
    ordered_json events = ordered_json::array();
    for (const ordered_json& event : json["traceEvents"]) {
      ordered_json own = event;
      if (own["ph"] == "X") own["name"] = "slice";
      own["tid"] = "thread";
      own["pid"] = "process " + event["pid"].dump();
      for (auto& [key, value] : own["args"].items()) {
        if (value.is_number() && testing::pick(random, 0, 1) == 0) value = value.dump();
      }
      events.push_back(own);
    }
    // Any order, but for what starts on one rank at one time.
    std::stable_sort(events.begin(), events.end(),
                     [](const ordered_json& a, const ordered_json& b) {
                       return a["pid"].get<std::string>() > b["pid"].get<std::string>();
                     });
    const ordered_json again{{"traceEvents", events}, {"metadata", json["metadata"]}};
    const RecordedRun run = read_text(again.dump());
    ASSERT_EQ(all(run), all(made.timeline));
    EXPECT_TRUE(run.warnings.empty()) << run.warnings.text();
    const RecordedRun first = read_text(made.trace);
    ASSERT_EQ(run.samples.size(), first.samples.size());
    EXPECT_EQ(run.samples.empty() ? 0 : run.samples.back().time_ns,
              first.samples.empty() ? 0 : first.samples.back().time_ns);
  }
}

TEST(ReadRun, ClocksThatStandAnywhereArePutRight) {
  const Predicted made = small_prediction();
  const auto shifted = [&](double us) {
    return read_text(slices_changed(made.trace, [&](ordered_json& event) {
      if (event["pid"] == 2) event["ts"] = event["ts"].get<double>() + us;
    }));
  };
  for (const double us : {5000.0, -5000.0}) {
    const RecordedRun run = shifted(us);
    ASSERT_EQ(run.warnings.kinds().size(), 1U) << run.warnings.text();
    EXPECT_EQ(run.warnings.kinds().front().what,
              "transfers that arrive before they were sent: clocks are shifted by up to 5.00 ms");
    ASSERT_EQ(run.spans.size(), made.timeline.spans.size());
    // Exactly one clock moves forward, as far as messages need.
    const std::int64_t moved = us < 0 ? 1 : 0;
    const auto shift = static_cast<std::int64_t>(us * 1000);
    ASSERT_EQ(run.about.clocks.size(), 2U);
    EXPECT_EQ(run.about.clocks[static_cast<std::size_t>(1 - moved)].shift_ns, 0);
    EXPECT_GT(run.about.clocks[static_cast<std::size_t>(moved)].shift_ns, 4'990'000);
    std::map<std::string, Span> spans;
    for (const Span& span : run.spans) spans[to_text(span.action)] = span;
    for (const Span& span : made.timeline.spans) {
      const Span& own = spans.at(to_text(span.action));
      EXPECT_EQ(own.start_ns, span.start_ns + (span.rank == 1 ? shift : 0) +
                                  run.about.clocks[static_cast<std::size_t>(span.rank)].shift_ns);
      EXPECT_EQ(own.end_ns - own.start_ns, span.end_ns - span.start_ns);
    }
    EXPECT_EQ(spans.at("1F0").input_sent_ns, spans.at("0SEND_F0").start_ns);
    EXPECT_EQ(spans.at("1F0").input_arrival_ns, spans.at("1RECV_F0").end_ns);
    EXPECT_GE(spans.at("1RECV_F0").end_ns, spans.at("0SEND_F0").start_ns);
    EXPECT_EQ(run.iterations[0].start_ns,
              std::min(spans.at("0F0").start_ns, spans.at("1F0").start_ns));
    const Metrics metrics = run.metrics(0);
    EXPECT_EQ(metrics.makespan_ns, run.iterations[0].makespan_ns);
    for (const RankMetrics& rank : metrics.ranks) {
      EXPECT_EQ(rank.busy_ns + rank.bubble.total_ns(), metrics.makespan_ns);
      EXPECT_GE(rank.bubble.p2p_ns, 0);
    }
  }
}

// One microbatch over two stages and back, 7 us an iteration, with layers and
// samples; written as measured, it comes back.
struct Measured {
  TimelineFrame frame;
  std::vector<Span> spans;
  std::vector<LayerSpan> layers;
  std::vector<MemorySample> samples;
  std::string trace;
};
Measured measured(int iterations) {
  Measured made;
  made.frame.ranks = 2;
  made.frame.microbatches = 1;
  made.frame.chunk_of_stage = {0, 0};
  const TemporaryFolder folder;
  OutputFile file(folder / "t.json");
  const ordered_json metadata{{"format", "pipesim-trace"},
                              {"version", 1},
                              {"source", "measured"},
                              {"schedule", "by hand"},
                              {"microbatches", 1},
                              {"rank_of_stage", {0, 1}},
                              {"layout", {1, 2}},
                              {"device", "a device"},
                              {"transport", "threads"},
                              {"model", {{"format", "pipesim-model"}}},
                              {"layers", {"embedding", "block \"0\"", "head"}},
                              {"clocks",
                               {{{"offset_ns", 0}, {"uncertainty_ns", 3}, {"shift_ns", 0}},
                                {{"offset_ns", -17}, {"uncertainty_ns", 40}, {"shift_ns", 5}}}}};
  MeasuredRun run;
  run.layers = {"embedding", "block \"0\"", "head"};
  run.largest_states.weights = 100;
  run.largest_working.activations = 10;
  ChromeTraceWriter writer(made.frame, metadata.dump(), file, run);
  for (int i = 0; i < iterations; ++i) {
    const std::int64_t late = 7000 * i;
    const auto first_span = made.spans.size();
    const auto first_layer = made.layers.size();
    const auto first_sample = made.samples.size();
    const auto add = [&](const char* text, int rank, std::int64_t start, std::int64_t end) {
      Span span{*parse_action(text), rank, i, late + start, late + end};
      if (is_transfer(span.action.kind)) span.bytes = 64;
      made.spans.push_back(span);
    };
    add("0F0", 0, 0, 1000);
    add("0SEND_F0", 0, 1000, 1200);
    add("1RECV_F0", 1, 1000, 1250);
    add("1F0", 1, 1300, 2000);
    add("1I0", 1, 2000, 3000);
    add("1SEND_B0", 1, 3000, 3200);
    add("0RECV_B0", 0, 3100, 3250);
    add("1W0", 1, 3500, 4000);
    add("0B0", 0, 4300, 6000 + i);
    Span* spans = made.spans.data() + first_span;
    spans[3].queued_ns = 50;
    spans[3].preempted_ns = 60;
    spans[3].input_sent_ns = late + 1000;
    spans[3].input_arrival_ns = late + 1250;
    spans[8].input_sent_ns = late + 3000;
    spans[8].input_arrival_ns = late + 3250;
    const auto layer = [&](const char* action, int rank, int index, Kind kind, std::int64_t start,
                           std::int64_t end, bool again = false) {
      made.layers.push_back(
          {rank, i, index, kind, again, *parse_action(action), late + start, late + end});
    };
    layer("0F0", 0, 0, Kind::F, 0, 900);
    layer("1F0", 1, 1, Kind::F, 1300, 1500);
    made.layers.back().preempted_ns = 60;
    layer("1F0", 1, 2, Kind::F, 1500, 2000);
    layer("1I0", 1, 1, Kind::F, 2000, 2200, true);
    layer("1I0", 1, 2, Kind::I, 2200, 3000);
    layer("1W0", 1, 2, Kind::W, 3500, 3900);
    layer("0B0", 0, 0, Kind::F, 4300, 4500, true);
    layer("0B0", 0, 0, Kind::I, 4500, 5000);
    layer("0B0", 0, 0, Kind::W, 5000, 6000);
    for (int rank = 0; rank < 2; ++rank) {
      MemorySample sample;
      sample.rank = rank;
      sample.time_ns = late + 1300 * rank;
      sample.states.weights = 100;
      sample.working.activations = 10 - rank;
      sample.chunks = 1;
      made.samples.push_back(sample);
      sample.time_ns = late + 5000;
      sample.working.activations = 0;
      sample.chunks = 0;
      made.samples.push_back(sample);
    }
    std::ranges::stable_sort(made.samples, {}, &MemorySample::time_ns);
    writer.add(std::span(made.spans).subspan(first_span),
               std::span(made.layers).subspan(first_layer),
               std::span(made.samples).subspan(first_sample));
  }
  writer.finish();
  file.commit();
  made.trace = read_file(folder / "t.json");
  return made;
}

TEST(ReadRun, AMeasurementComesBackAsItWas) {
  const Measured made = measured(3);
  const RecordedRun run = read_text(made.trace, {.layers = true, .samples = true});
  EXPECT_TRUE(run.warnings.empty()) << run.warnings.text();
  EXPECT_EQ(all(run), made.spans);
  EXPECT_EQ(run.layers, made.layers);
  ASSERT_EQ(run.samples.size(), made.samples.size());
  for (std::size_t i = 0; i < run.samples.size(); ++i) {
    EXPECT_EQ(run.samples[i].rank, made.samples[i].rank);
    EXPECT_EQ(run.samples[i].time_ns, made.samples[i].time_ns);
    EXPECT_EQ(run.samples[i].chunks, made.samples[i].chunks);
    EXPECT_EQ(run.samples[i].states.weights, 100);
    EXPECT_EQ(run.samples[i].working, made.samples[i].working);
  }
  ASSERT_EQ(run.iterations.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const RecordedIteration& iteration = run.iterations[static_cast<std::size_t>(i)];
    EXPECT_EQ(iteration.number, i);
    EXPECT_EQ(iteration.start_ns, 7000 * i);
    EXPECT_EQ(iteration.makespan_ns, 6000 + i);
    EXPECT_EQ(run.spans_of(iteration).size(), 9U);
  }
  EXPECT_EQ(run.median_iteration(), 1U);
  EXPECT_EQ(run.metrics(2).makespan_ns, 6002);
  EXPECT_EQ(run.about.source, Source::measured);
  EXPECT_EQ(run.about.schedule, "by hand");
  EXPECT_EQ(run.about.device, "a device");
  EXPECT_EQ(run.about.transport, "threads");
  EXPECT_EQ(run.about.model_json, R"({"format":"pipesim-model"})");
  EXPECT_EQ(run.about.layers[1], "block \"0\"");
  EXPECT_EQ(run.about.layout, (std::vector{1, 2}));
  ASSERT_EQ(run.about.clocks.size(), 2U);
  EXPECT_EQ(run.about.clocks[1].offset_ns, -17);
  EXPECT_EQ(run.about.clocks[1].uncertainty_ns, 40);
  EXPECT_EQ(run.about.clocks[1].shift_ns, 5);
  EXPECT_EQ(run.identified, Identified::exact);
  const RecordedRun bare = read_text(made.trace, {.layers = false, .samples = false});
  EXPECT_TRUE(bare.layers.empty());
  // Of each rank the fullest.
  std::map<std::int32_t, std::int64_t> fullest;
  const auto total = [](const MemorySample& one) {
    return one.states.total() + one.working.total();
  };
  for (const MemorySample& sample : run.samples) {
    fullest[sample.rank] = std::max(fullest[sample.rank], total(sample));
  }
  EXPECT_EQ(bare.samples.size(), fullest.size());
  for (const MemorySample& sample : bare.samples) {
    EXPECT_EQ(total(sample), fullest[sample.rank]);
  }
}

std::string unpacked(const std::string& path) {
  InputFile file(path);
  std::string text(std::size_t{1} << 24, '\0');
  text.resize(file.read(text.data(), text.size()));
  return text;
}

// A real training, over threads: the spans and metrics that it reports.
TEST(ReadRun, ATrainingComesBackAsItWas) {
  for (const char* family : {"1f1b", "zb-h1"}) {
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(family);
      exec::TrainingJob training =
          testing::tiny_training(generate({family, 2, 4}), testing::tiny_model(4));
      training.iterations = 3;
      training.verify = false;
      training.recompute.full = recompute;
      training.record_details = true;
      const TemporaryFolder folder;
      OutputFile file(folder / "t.json.gz", true);
      const exec::RunResult result = testing::run_locally(training, {}, {}, &file);
      file.commit();
      const RecordedRun run = read_run({folder / "t.json.gz"}, {.layers = true, .samples = true});
      EXPECT_TRUE(run.warnings.empty()) << run.warnings.text();
      ASSERT_EQ(run.iterations.size(), 3U);
      std::vector<std::int64_t> makespans;
      for (const auto& iteration : run.iterations) makespans.push_back(iteration.makespan_ns);
      EXPECT_EQ(makespans, result.iteration_ns());
      EXPECT_EQ(run.median_iteration(), result.run.median_iteration());
      const auto spans = [](const RecordedRun& of) {
        const auto median = of.spans_of(of.iterations[of.median_iteration()]);
        return std::vector(median.begin(), median.end());
      };
      EXPECT_EQ(spans(run), spans(result.run));
      const Metrics metrics = run.metrics(result.run.median_iteration());
      EXPECT_EQ(metrics.makespan_ns, result.metrics.makespan_ns);
      EXPECT_EQ(metrics.critical_path.p2p_ns, result.metrics.critical_path.p2p_ns);
      for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
        EXPECT_EQ(metrics.ranks[r].busy_ns, result.metrics.ranks[r].busy_ns);
        EXPECT_EQ(metrics.ranks[r].bubble.steady_ns, result.metrics.ranks[r].bubble.steady_ns);
      }
      // An F, an I and a W of each of 4 layers, microbatches and iterations; again
      // an F of the two blocks where activations are recomputed.
      EXPECT_EQ(run.layers.size(), 4U * 4U * 3U * 3U + (recompute ? 2U * 4U * 3U : 0U));
      // What the counters come to, added up another way.
      std::int64_t most = 0;
      for (const MemorySample& sample : run.samples) {
        most = std::max(most, sample.states.total() + sample.working.total());
      }
      std::int64_t counted = 0;
      const ordered_json json = ordered_json::parse(unpacked(folder / "t.json.gz"));
      for (const ordered_json& event : json["traceEvents"]) {
        if (event["ph"] != "C" || event["name"] != "memory") continue;
        std::int64_t total = 0;
        for (const ordered_json& value : event["args"]) total += value.get<std::int64_t>();
        counted = std::max(counted, total);
      }
      EXPECT_EQ(most, counted);
      EXPECT_GT(most, 0);
      EXPECT_EQ(run.about.layers.size(), 4U);
    }
  }
}

TEST(ReadRun, WhatIsThereTwiceCountsOnce) {
  const Predicted made = small_prediction();
  const RecordedRun run = read_text(changed(made.trace, [](ordered_json& json) {
    ordered_json twice = ordered_json::array();
    for (const ordered_json& event : json["traceEvents"]) {
      twice.push_back(event);
      if (!is_slice(event, "0F1") && !is_slice(event, "1B0")) continue;
      twice.push_back(event);
      twice.back()["dur"] = 7;
    }
    json["traceEvents"] = twice;
  }));
  EXPECT_EQ(all(run), all(made.timeline));
  EXPECT_EQ(warned(run, "there twice"), 2);
}

TEST(ReadRun, WhatContradictsTheMetadataIsLeftOut) {
  const Predicted made = small_prediction();
  const auto with = [&](const char* key, const ordered_json& value) {
    return read_text(slices_changed(made.trace, [&](ordered_json& event) {
      if (is_slice(event, "0F1")) event["args"][key] = value;
    }));
  };
  for (const auto& [key, value] : std::vector<std::pair<const char*, ordered_json>>{
           {"stage", 2}, {"rank", 2}, {"rank", 1}, {"microbatch", 2}, {"stage", 1}}) {
    const RecordedRun run = with(key, value);
    SCOPED_TRACE(key);
    EXPECT_EQ(run.spans.size(), made.timeline.spans.size() - 1);
    EXPECT_EQ(warned(run, "contradict metadata.pipesim"), 1);
    EXPECT_EQ(warned(run, "forwards (F) are missing"), 1);
  }
  for (const auto& [key, value] : std::vector<std::pair<const char*, ordered_json>>{
           {"rank", -1}, {"iteration", nullptr}, {"iteration", 1e12}, {"rank", "none"}}) {
    EXPECT_EQ(warned(with(key, value), "lack rank or iteration"), 1) << key;
  }
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, ordered_json>>{{"kind", "X"},
                                                         {"kind", "OVERLAP_F_B"},
                                                         {"microbatch", nullptr},
                                                         {"stage", -3},
                                                         {"bytes", -1},
                                                         {"queued_ns", -1},
                                                         {"taken_ns", -1}}) {
    EXPECT_EQ(warned(with(key, value), "name none"), 1) << key;
  }
}

TEST(ReadRun, WhatIsMissingIsNamed) {
  const Predicted made = small_prediction();
  const RecordedRun lost = read_text(without(made.trace, [](const ordered_json& event) {
    return is_slice(event, "1B1") || is_slice(event, "0SEND_F0");
  }));
  EXPECT_NE(lost.warnings.text().find("rank 1: backwards (B, or I) are missing"), std::string::npos)
      << lost.warnings.text();
  EXPECT_EQ(warned(lost, "the other end is missing"), 1);
  EXPECT_EQ(lost.metrics(0).makespan_ns, lost.iterations[0].makespan_ns);
  for (const Span& span : lost.spans) {
    if (to_text(span.action) == "1F0") {
      EXPECT_FALSE(span.has_input());
    }
  }
  const RecordedRun alone = read_text(without(made.trace, [](const ordered_json& event) {
    return event["ph"] == "X" && event["pid"] == 2;
  }));
  EXPECT_NE(alone.warnings.text().find("rank 1: it has no actions"), std::string::npos)
      << alone.warnings.text();
  EXPECT_EQ(alone.metrics(0).ranks[1].busy_ns, 0);
  // Backwards without forwards, which a meter of memory might trip over.
  const RecordedRun headless = read_text(without(made.trace, [](const ordered_json& event) {
    return is_slice(event, "0F0") || is_slice(event, "0F1");
  }));
  EXPECT_EQ(warned(headless, "forwards (F) are missing"), 2);
  EXPECT_EQ(headless.metrics(0).ranks[0].peak_activation_chunks, 0);
}

// Cut off anywhere, whole iterations are left, or part of the only one.
TEST(ReadRun, CutOffAnywhere) {
  const Measured made = measured(3);
  const ReadOptions options{.layers = true, .samples = true};
  std::set<std::size_t> seen;
  const TemporaryFolder folder;
  const std::size_t start = made.trace.find("\"traceEvents\":[") + 15;
  for (std::size_t size = start; size < made.trace.size() - 3; size += 3) {
    const std::string path = folder / std::to_string(size);
    std::ofstream(path) << std::string_view(made.trace).substr(0, size);
    RecordedRun run;
    const std::string complaint = testing::error_of([&] { run = read_run({path}, options); });
    if (complaint != testing::no_error) {
      EXPECT_NE(complaint.find("no action of a schedule"), std::string::npos) << complaint;
      EXPECT_TRUE(seen.empty());
      continue;
    }
    EXPECT_EQ(warned(run, "ends in the middle"), 1);
    seen.insert(run.spans.size());
    ASSERT_LE(run.spans.size(), made.spans.size());
    if (run.spans.size() >= 9) {
      EXPECT_TRUE(std::equal(run.spans.begin(), run.spans.end(), made.spans.begin()));
      EXPECT_EQ(run.spans.size() % 9, 0U);
    }
    for (std::size_t i = 0; i < run.iterations.size(); ++i) run.metrics(i);
    if (HasFailure()) break;
  }
  EXPECT_EQ(seen, (std::set<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 18, 27}));
}

// More than 2^58 ns would leave no room for sums of two of them, and what is added.
TEST(ReadRun, ActionsOfYearsAreRefused) {
  const auto overlapping = [](int actions) {
    std::string trace =
        R"({"metadata":{"pipesim":{"format":"pipesim-trace","version":1,"source":"measured",)"
        R"("microbatches":)" +
        std::to_string(actions) + R"(,"rank_of_stage":[0]}},"traceEvents":[)";
    for (int m = 0; m < actions; ++m) {
      trace += std::string(m == 0 ? "" : ",") +
               R"({"ph":"X","ts":0,"dur":999999999999,"pid":0,"tid":0,"name":"F",)"
               R"("args":{"kind":"F","stage":0,"rank":0,"iteration":0,"microbatch":)" +
               std::to_string(m) + "}}";
    }
    return trace + "]}";
  };
  EXPECT_EQ(read_text(overlapping(288)).spans.size(), 288U);
  const std::string error = testing::input_error_of([&] { read_text(overlapping(289)); });
  EXPECT_NE(error.find("more than 9 years together"), std::string::npos) << error;
}

// Clocks that are years apart are not one run's.
TEST(ReadRun, AnIterationOfDaysIsNone) {
  const Measured made = measured(3);
  const RecordedRun run = read_text(slices_changed(made.trace, [](ordered_json& event) {
    if (event["args"]["iteration"] == 1 && event["pid"] == 2) event["ts"] = -2.2e15;
  }));
  EXPECT_EQ(warned(run, "more than 11 days"), 1);
  ASSERT_EQ(run.iterations.size(), 2U);
  EXPECT_EQ(run.iterations[1].number, 2);
}

TEST(ReadRun, OneFileARank) {
  const Predicted made = small_prediction();
  const TemporaryFolder folder;
  const auto write_rank = [&](int rank, const std::string& trace) {
    const std::string path = folder / ("rank" + std::to_string(rank) + ".json");
    write_file(path,
               without(trace, [&](const ordered_json& event) { return event["pid"] != rank + 1; }));
    return path;
  };
  const std::string zero = write_rank(0, made.trace);
  const std::string one = write_rank(1, made.trace);
  for (const auto& paths : {std::vector{zero, one}, std::vector{one, zero}}) {
    const RecordedRun run = read_run(paths);
    EXPECT_EQ(all(run), all(made.timeline));
    EXPECT_TRUE(run.warnings.empty()) << run.warnings.text();
    EXPECT_EQ(run.samples.size(), read_text(made.trace).samples.size());
    EXPECT_TRUE(std::ranges::is_sorted(run.samples, {}, &MemorySample::time_ns));
  }
  const auto refusal = [&](const std::vector<std::string>& paths) {
    return testing::input_error_of([&] { read_run(paths); });
  };
  const std::string all_ranks = folder / "all.json";
  write_file(all_ranks, made.trace);
  EXPECT_NE(refusal({zero, all_ranks}).find("both have actions of rank 0"), std::string::npos);
  EXPECT_NE(refusal({zero, zero}).find("given twice"), std::string::npos);
  write_file(one, slices_changed(made.trace, [](ordered_json&) {}));
  const std::string other = folder / "other.json";
  write_file(other, changed(made.trace, [](ordered_json& json) {
               json["metadata"]["pipesim"]["schedule"] = "another";
             }));
  const std::string two_runs = refusal({zero, other});
  EXPECT_NE(two_runs.find("from two runs"), std::string::npos) << two_runs;
  EXPECT_NE(two_runs.find(zero), std::string::npos);
  EXPECT_NE(two_runs.find(other), std::string::npos);
  const std::string foreign = testing::source_file("tests/data/traces/hta_event_sync.json.gz");
  for (const auto& paths : {std::vector{zero, foreign}, std::vector{foreign, zero}}) {
    EXPECT_NE(refusal(paths).find("one run"), std::string::npos) << refusal(paths);
  }
  EXPECT_NE(refusal({}).find("no trace file"), std::string::npos);
}

TEST(ReadRun, NothingToRead) {
  const Predicted made = small_prediction();
  const auto failure = [](const std::string& text) {
    return testing::input_error_of([&] { read_text(text); });
  };
  const std::string none = failure(slices_changed(
      made.trace, [](ordered_json& event) { event["args"] = ordered_json::object(); }));
  EXPECT_NE(none.find("no action of a schedule"), std::string::npos) << none;
  EXPECT_NE(none.find("kind, stage, rank and iteration"), std::string::npos) << none;
  EXPECT_NE(none.find("16 X, such as '0F0', "), std::string::npos) << none;
  const std::string strange =
      failure(slices_changed(made.trace, [](ordered_json& event) { event["args"]["rank"] = 77; }));
  EXPECT_NE(strange.find("16: actions that contradict"), std::string::npos) << strange;
  const std::string bare =
      failure(changed(made.trace, [](ordered_json& json) { json.erase("metadata"); }));
  EXPECT_NE(bare.find("no metadata.pipesim"), std::string::npos) << bare;
}

TEST(ReadRun, MetadataThatCannotBe) {
  const Predicted made = small_prediction();
  const auto with = [&](const char* key, const ordered_json& value) {
    return testing::input_error_of([&] {
      read_text(changed(made.trace,
                        [&](ordered_json& json) { json["metadata"]["pipesim"][key] = value; }));
    });
  };
  const std::vector<std::tuple<const char*, ordered_json, const char*>> cases{
      {"version", 2, "version is not 1"},
      {"version", nullptr, "version is missing"},
      {"source", "dreamt", "'dreamt' is neither 'predicted' nor 'measured'"},
      {"rank_of_stage", nullptr, "rank_of_stage is missing or empty"},
      {"rank_of_stage", ordered_json::array(), "rank_of_stage is missing or empty"},
      {"rank_of_stage", {0, 2}, "names more ranks than stages"},
      {"rank_of_stage", {1, 1}, "leaves a rank without a stage"},
      {"rank_of_stage", {0, -1}, "must hold whole numbers"},
      {"rank_of_stage", {0, 0.5}, "must hold whole numbers"},
      {"rank_of_stage", {0, 18446744073709551615ULL}, "must hold whole numbers"},
      {"rank_of_stage", 7, "rank_of_stage must be a list"},
      {"microbatches", nullptr, "microbatches is missing"},
      {"microbatches", 0, "microbatches must hold whole numbers from 1"},
      {"microbatches", 1'000'000'000, "microbatches must hold whole numbers from 1"},
      {"schedule", 5, "schedule must be a string"},
      {"program", {"0F0"}, "program must have a row per rank"},
      {"program", {1, 2}, "program must hold strings"},
      {"layout", {1, 2, 3}, "layout must have a number per virtual stage"},
      {"clocks", ordered_json::array({ordered_json::object()}),
       "clocks must have an entry per rank"},
      {"clocks", {1, 2}, "clocks must be an object"}};
  for (const auto& [key, value, expected] : cases) {
    const std::string refusal = with(key, value);
    EXPECT_NE(refusal.find(std::string("metadata.pipesim.") + key), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(expected), std::string::npos) << refusal;
  }
  EXPECT_EQ(with("a key of a later day", 1), testing::no_error);
}

}  // namespace
}  // namespace pipesim
