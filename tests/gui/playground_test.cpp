// The playground says what pipesim says, in the form in which its traces are read.
#include "gui/playground/playground.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>

#include "sim/engine/prediction.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/family.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/chrome_writer.h"
#include "traces/read/read_run.h"

namespace pipesim::gui {
namespace {

using pipesim::testing::pick;

Settings settings_of(const std::string& schedule, int stages, int microbatches, int chunks = 1) {
  Settings settings;
  settings.schedule = schedule;
  settings.stages = stages;
  settings.virtual_stages = chunks;
  settings.microbatches = microbatches;
  return settings;
}

// The costs that the settings mean, written down a second time.
Costs costs_of(const Settings& settings) {
  Costs costs;
  for (int s = 0; s < settings.stages * settings.virtual_stages; ++s) {
    const std::int64_t percent = s == settings.slow_stage ? settings.slow_percent : 100;
    // Chunk by chunk a part of what the rank takes; the last has the rest.
    const int chunks = settings.virtual_stages;
    const auto part = [&](std::int64_t ns) {
      return (ns / chunks + (s / settings.stages == chunks - 1 ? ns % chunks : 0)) * percent / 100;
    };
    StageCosts stage;
    stage.forward_ns = part(settings.forward_ns);
    stage.backward_input_ns = part(settings.input_ns);
    stage.backward_weight_ns = part(settings.weight_ns);
    stage.activation_bytes = settings.activation_bytes;
    costs.stages.push_back(stage);
  }
  costs.p2p.latency_ns = settings.latency_ns;
  return costs;
}

// What read_run() makes of the trace that pipesim would write.
RecordedRun through_a_file(const Settings& settings) {
  const Family& chosen = family(settings.schedule);
  const Shape shape = resolve_shape(
      chosen, {settings.schedule, settings.stages, settings.microbatches, settings.virtual_stages});
  const Schedule schedule = generate(chosen, shape);
  const Costs costs = costs_of(settings);
  const Prediction prediction = predict(schedule, costs, &chosen, shape);
  const pipesim::testing::TemporaryFolder folder;
  OutputFile file(folder / "trace.json");
  write_chrome_trace(record_run(schedule, costs), file);
  file.commit();
  return read_run({folder / "trace.json"});
}

auto parts_of(const Span& span) {
  return std::tuple(to_text(span.action), span.action.joined, span.rank, span.iteration,
                    span.start_ns, span.end_ns, span.input_sent_ns, span.input_arrival_ns,
                    span.bytes, span.queued_ns);
}

auto parts_of(const MemorySample& sample) {
  return std::tuple(sample.time_ns, sample.rank, sample.chunks, sample.states.total(),
                    sample.working.activations, sample.working.residue, sample.working.send_buffers,
                    sample.working.receive_buffers);
}

auto parts_of(const RecordedIteration& iteration) {
  return std::tuple(iteration.number, iteration.begin, iteration.end, iteration.start_ns,
                    iteration.makespan_ns);
}

template <typename List>
auto all_parts(const List& list) {
  std::vector<decltype(parts_of(*list.begin()))> parts;
  for (const auto& one : list) parts.push_back(parts_of(one));
  return parts;
}

void expect_same_run(const RecordedRun& run, const RecordedRun& read) {
  EXPECT_EQ(run.ranks, read.ranks);
  EXPECT_EQ(run.microbatches, read.microbatches);
  EXPECT_EQ(run.chunk_of_stage, read.chunk_of_stage);
  EXPECT_EQ(run.about.source, read.about.source);
  EXPECT_EQ(run.about.schedule, read.about.schedule);
  EXPECT_EQ(run.about.rank_of_stage, read.about.rank_of_stage);
  EXPECT_EQ(run.about.program, read.about.program);
  EXPECT_EQ(run.about.costs_json, read.about.costs_json);
  EXPECT_EQ(run.about.p2p, read.about.p2p);
  EXPECT_EQ(run.about.eager_limit_bytes, read.about.eager_limit_bytes);
  EXPECT_EQ(run.about.device + run.about.transport + run.about.model_json,
            read.about.device + read.about.transport + read.about.model_json);
  EXPECT_EQ(run.about.layers, read.about.layers);
  EXPECT_EQ(run.about.layout, read.about.layout);
  EXPECT_EQ(run.about.clocks.size(), read.about.clocks.size());
  EXPECT_EQ(run.identified, read.identified);
  EXPECT_EQ(run.unmatched, read.unmatched);
  EXPECT_TRUE(read.warnings.kinds().empty());
  EXPECT_EQ(all_parts(run.iterations), all_parts(read.iterations));
  EXPECT_EQ(all_parts(run.spans), all_parts(read.spans));
  EXPECT_EQ(all_parts(run.samples), all_parts(read.samples));
  EXPECT_TRUE(run.layers.empty());
}

Settings random_settings(std::mt19937_64& random) {
  const std::vector<Offer> all = offers();
  const Offer& offer = all[static_cast<std::size_t>(pick(random, 0, std::ssize(all) - 1))];
  Settings settings = settings_of(offer.name, static_cast<int>(pick(random, 1, 5)),
                                  static_cast<int>(pick(random, 1, 9)));
  settings.virtual_stages =
      offer.takes_chunks ? static_cast<int>(pick(random, 1, 3)) : offer.default_chunks;
  settings.forward_ns = pick(random, 0, 5);
  settings.input_ns = pick(random, 0, 5);
  settings.weight_ns = pick(random, 0, 5);
  settings.latency_ns = pick(random, 0, 3);
  settings.activation_bytes = pick(random, 0, 1) * 1024;
  if (pick(random, 0, 1) == 1) {
    settings.slow_stage =
        static_cast<int>(pick(random, 0, settings.stages * settings.virtual_stages - 1));
    settings.slow_percent = static_cast<int>(pick(random, 1, 400));
  }
  return settings;
}

TEST(Playground, OffersEveryFamily) {
  const std::vector<Offer> all = offers();
  ASSERT_EQ(all.size(), all_families().size());
  for (const Offer& offer : all) {
    EXPECT_FALSE(offer.title.empty());
    EXPECT_FALSE(offer.summary.empty());
    // What it offers can be played.
    const Outcome outcome = play(settings_of(offer.name, 4, 8, offer.default_chunks));
    EXPECT_EQ(outcome.objection, "") << offer.name;
    EXPECT_EQ(outcome.trace->run->about.schedule, offer.name);
    const Outcome other = play(settings_of(offer.name, 4, 8, offer.default_chunks + 1));
    EXPECT_EQ(other.trace != nullptr, offer.takes_chunks) << offer.name << ": " << other.objection;
  }
}

TEST(Playground, IsTheTraceThatPipesimWrites) {
  std::mt19937_64 random(7);
  int compared = 0;
  for (int i = 0; i < 300; ++i) {
    const Settings settings = random_settings(random);
    const Outcome outcome = play(settings);
    SCOPED_TRACE(::testing::Message()
                 << settings.schedule << " " << settings.stages << " x " << settings.virtual_stages
                 << " x " << settings.microbatches << ", case " << i);
    if (!outcome.trace) {
      EXPECT_NE(outcome.objection, "");
      continue;
    }
    expect_same_run(*outcome.trace->run, through_a_file(settings));
    if (::testing::Test::HasFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

// Each microbatch crosses each border between virtual stages twice, forward and back.
TEST(Playground, CountsMessagesBetweenRanks) {
  EXPECT_EQ(play(settings_of("1f1b", 4, 8)).messages, "48 per iteration, 6 per microbatch");
  EXPECT_EQ(play(settings_of("1f1b", 1, 8)).messages, "none");
  Settings interleaved = settings_of("interleaved", 4, 8);
  interleaved.virtual_stages = 2;
  interleaved.latency_ns = 300'000;
  EXPECT_EQ(play(interleaved).messages, "112 per iteration, 14 per microbatch, 300 us each");
  // On a V, both middle chunks are on the last rank.
  Settings v = settings_of("zb-v", 4, 8);
  v.virtual_stages = 2;
  EXPECT_EQ(play(v).messages, "96 per iteration, 12 per microbatch");
}

TEST(Playground, ShowsTheFormulaBesideTheValue) {
  const Outcome outcome = play(settings_of("1f1b", 4, 8));
  EXPECT_EQ(outcome.objection, "");
  EXPECT_EQ(outcome.verdict, "1F1B, 4 stages, 8 microbatches: 33.00 ms, of which 27 % bubble");
  EXPECT_EQ(outcome.bubble, "27.3 %");
  EXPECT_EQ(outcome.formula, "(p-1)(F+B) = 9.00 ms, 27.3 %: exact here");
  EXPECT_EQ(outcome.memory, "at most 4 microbatches on rank 0");
  EXPECT_EQ(outcome.trace->paths.size(), 0U);
  EXPECT_EQ(outcome.trace->name, "1F1B, 4 stages, 8 microbatches");
}

TEST(Playground, ASpanFormulaStandsBesideTheSpansValue) {
  const Outcome outcome = play(settings_of("zb-h2", 4, 8));
  EXPECT_EQ(outcome.bubble, "11.1 %; 0.0 % of rank 0's own time");
  EXPECT_EQ(outcome.formula, "(p-1)(F+I-2W) = 0 ms, 0.0 % of its own time: exact here");
}

TEST(Playground, ASlowStageTakesLongerAndHasNoFormula) {
  Settings settings = settings_of("1f1b", 4, 8);
  settings.slow_stage = 2;
  settings.slow_percent = 150;
  const Outcome outcome = play(settings);
  EXPECT_EQ(outcome.formula, "(p-1)(F+B), global, but not here: stages differ");
  std::map<std::tuple<int, Kind>, std::int64_t> durations;
  for (const Span& span : outcome.trace->run->spans) {
    durations[{span.action.stage, span.action.kind}] = span.end_ns - span.start_ns;
  }
  EXPECT_EQ((durations[{1, Kind::F}]), 1'000'000);
  EXPECT_EQ((durations[{2, Kind::F}]), 1'500'000);
  EXPECT_EQ((durations[{2, Kind::B}]), 3'000'000);
  EXPECT_EQ((durations[{3, Kind::B}]), 2'000'000);
}

TEST(Playground, SaysWhichRankExceedsTheMemory) {
  Settings settings = settings_of("1f1b", 4, 8);
  settings.activation_bytes = std::int64_t{1} << 30;
  settings.memory_cap_bytes = std::int64_t{4} << 30;
  EXPECT_EQ(play(settings).memory, "at most 4 microbatches on rank 0, 4.0 GiB; fits into 4.0 GiB");
  settings.memory_cap_bytes = std::int64_t{5} << 29;
  // Ranks keep 4, 3, 2, 1 of 1 GiB; the fourth F of rank 0 starts at 3 ms.
  EXPECT_EQ(play(settings).memory,
            "at most 4 microbatches on rank 0, 4.0 GiB; 2 of 4 ranks exceed 2.5 GiB, rank 0 by "
            "1.5 GiB when 0F3 starts at 3.00 ms");
  settings.activation_bytes = 0;
  EXPECT_EQ(play(settings).memory,
            "at most 4 microbatches on rank 0; give activations bytes to see if they fit");
}

TEST(Playground, ObjectsInOneSentence) {
  const auto objection = [](const Settings& settings) {
    const Outcome outcome = play(settings);
    EXPECT_EQ(outcome.trace, nullptr);
    EXPECT_EQ(
        outcome.verdict + outcome.bubble + outcome.formula + outcome.messages + outcome.memory, "");
    EXPECT_EQ(outcome.objection.find('\n'), std::string::npos);
    return outcome.objection;
  };
  EXPECT_EQ(
      objection(settings_of("1f1b", 128, 4096)),
      "128 stages x 1 chunk x 4,096 microbatches are more than is played at once, 64 stages x "
      "4,096 microbatches; use fewer, or let pipesim write a trace");
  EXPECT_EQ(objection(settings_of("1f1b", 1'000'000'000, 1'000'000'000, 1'000'000'000))
                .find("1,000,000,000 stages"),
            0U);
  EXPECT_EQ(objection(settings_of("1f1b", 0, 8)), "0 stages: use at least 1");
  EXPECT_EQ(objection(settings_of("1f1b", 4, -1)), "-1 microbatches: use at least 1");
  EXPECT_NE(objection(settings_of("1f1b", 4, 8, 2)).find("1f1b has one chunk per rank"),
            std::string::npos);
  EXPECT_NE(objection(settings_of("2f2b", 4, 8)).find("unknown schedule"), std::string::npos);
  EXPECT_NE(objection(settings_of("interleaved-pytorch", 4, 9, 2)).find("rounds of equal size"),
            std::string::npos);
  Settings settings = settings_of("1f1b", 4, 8);
  settings.slow_stage = 4;
  EXPECT_EQ(objection(settings), "slow stage 4: there are stages 0 to 3");
  settings.slow_stage = 3;
  settings.slow_percent = 0;
  EXPECT_EQ(objection(settings), "slow stage at 0 %: use 1 to 10,000 % of the others' times");
  settings = settings_of("1f1b", 4, 8);
  settings.forward_ns = -1;
  EXPECT_EQ(objection(settings), "forward: -1 ns is not valid; give a time from 0 to 11 days");
  settings.forward_ns = INT64_MAX;
  EXPECT_NE(objection(settings), "");
  settings.forward_ns = max_time_ns;
  settings.slow_stage = 0;
  settings.slow_percent = 10'000;
  settings.microbatches = 1000;
  EXPECT_NE(objection(settings).find("exceed what 64 bits hold"), std::string::npos);
}

TEST(Playground, NothingThatTakesTimeIsPlayedToo) {
  Settings settings = settings_of("1f1b", 2, 2);
  settings.forward_ns = settings.input_ns = settings.weight_ns = 0;
  const Outcome outcome = play(settings);
  EXPECT_EQ(outcome.objection, "");
  EXPECT_EQ(outcome.bubble, "0.0 %");
  EXPECT_EQ(outcome.formula, "(p-1)(F+B), global, but not here: nothing takes time");
}

// What lessons say is what is seen.
TEST(Lessons, AreTrue) {
  std::map<std::string, Outcome> seen;
  std::map<std::string, Metrics> metrics;
  for (const Lesson& lesson : lessons()) {
    const Outcome& outcome = seen[lesson.name] = play(lesson.settings);
    ASSERT_EQ(outcome.objection, "") << lesson.name;
    EXPECT_NE(lesson.text, "");
    metrics[lesson.name] = outcome.trace->run->metrics(0);
  }
  const Metrics& gpipe = metrics.at("GPipe vs 1F1B: GPipe");
  const Metrics& plain = metrics.at("GPipe vs 1F1B: 1F1B");
  EXPECT_EQ(gpipe.makespan_ns, plain.makespan_ns);
  for (const RankMetrics& rank : gpipe.ranks) EXPECT_EQ(rank.peak_activation_chunks, 8);
  EXPECT_NE(seen["GPipe vs 1F1B: GPipe"].memory.find("exceed"), std::string::npos);
  EXPECT_NE(seen["GPipe vs 1F1B: 1F1B"].memory.find("fits into"), std::string::npos);

  // Every other rank stalls in the steady state; the slow one does not.
  const Metrics& slow = metrics.at("A slow stage");
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(slow.ranks[rank].bubble.steady_ns > 0, rank != 2) << rank;
  }

  const Metrics& interleaved = metrics.at("Interleaving");
  EXPECT_EQ(interleaved.ranks[0].busy_ns, plain.ranks[0].busy_ns);
  EXPECT_EQ(2 * interleaved.ranks[0].bubble.total_ns(), plain.ranks[0].bubble.total_ns());
  // Chunks are half as large.
  EXPECT_GT(interleaved.peak_activation_chunks(), 2 * plain.peak_activation_chunks());

  const Metrics& split = metrics.at("Zero bubble: ZB-H1");
  EXPECT_LT(split.ranks[0].bubble.drain_ns, plain.ranks[0].bubble.total_ns());
  EXPECT_LT(split.makespan_ns, plain.makespan_ns);
  EXPECT_EQ(metrics.at("Zero bubble: ZB-H2").span_bubble(), 0);
  for (const RankMetrics& rank : metrics.at("Zero bubble: ZB-H2").ranks) {
    EXPECT_EQ(rank.span_ns(), rank.busy_ns);
  }
}

// Values that a person may type, whatever they are.
TEST(Playground, NeverThrows) {
  std::mt19937_64 random(8);
  const std::int64_t odd[] = {INT64_MIN, -1, 0, 1, 1'000'000, max_time_ns, max_bytes, INT64_MAX};
  const int counts[] = {INT32_MIN, -1, 0, 1, 2, 7, 100, 100'000, INT32_MAX};
  const auto some = [&](const auto& list) {
    return list[static_cast<std::size_t>(pick(random, 0, std::ssize(list) - 1))];
  };
  int objections = 0;
  for (int i = 0; i < 2000; ++i) {
    Settings settings = settings_of("interleaved", some(counts), some(counts), some(counts));
    for (auto* value : {&settings.forward_ns, &settings.input_ns, &settings.weight_ns,
                        &settings.latency_ns, &settings.activation_bytes}) {
      if (pick(random, 0, 3) == 0) *value = some(odd);
    }
    if (pick(random, 0, 1) == 0) settings.memory_cap_bytes = some(odd);
    if (pick(random, 0, 1) == 0) settings.slow_stage = some(counts);
    settings.slow_percent = some(counts);
    const Outcome outcome = play(settings);
    objections += outcome.trace == nullptr;
    ASSERT_EQ(outcome.trace == nullptr, !outcome.objection.empty());
  }
  EXPECT_GT(objections, 1000);
}

// The steps of a microbatch against what each action's spans say.
TEST(Steps, TellWhatDecidedEachStart) {
  std::mt19937_64 random(9);
  std::size_t checked = 0;
  for (int i = 0; i < 200; ++i) {
    const Settings settings = random_settings(random);
    const Outcome outcome = play(settings);
    if (!outcome.trace) continue;
    const RecordedRun& run = *outcome.trace->run;
    const int microbatch = static_cast<int>(pick(random, 0, settings.microbatches - 1));
    const std::vector<Step> steps = steps_of(*outcome.trace, 3, microbatch);
    std::int64_t before_ns = 0;
    std::int64_t finished_ns = 0;
    for (const Step& step : steps) {
      ASSERT_EQ(step.action.trace, 3);
      const Span& span = run.spans[step.action.ref];
      EXPECT_EQ(span.action.microbatch, microbatch);
      EXPECT_GE(span.start_ns, before_ns);  // in the order of time
      before_ns = span.start_ns;
      finished_ns = std::max(finished_ns, span.end_ns);
      EXPECT_EQ(step.text.find(to_text(span.action) + " starts at " + format_time(span.start_ns)),
                0U)
          << step.text;
      // It starts as soon as all that it needs has ended, and not before.
      std::int64_t ready_ns = 0;
      for (const Pick& need : step.needs) {
        EXPECT_FALSE(need == step.action);
        ready_ns = std::max(ready_ns, run.spans[need.ref].end_ns);
      }
      EXPECT_EQ(span.start_ns, ready_ns) << step.text;
      EXPECT_EQ(step.decided_by.has_value(), !step.needs.empty());
      if (step.decided_by) {
        EXPECT_EQ(run.spans[step.decided_by->ref].end_ns, span.start_ns) << step.text;
        EXPECT_EQ(step.text.find("after"),
                  &step == &steps.back() ? step.text.rfind("after") : std::string::npos)
            << step.text;
      }
      ++checked;
    }
    // All of its actions are there.
    EXPECT_EQ(steps.size(),
              static_cast<std::size_t>(std::ranges::count_if(run.spans, [&](const Span& span) {
                return is_compute(span.action.kind) && span.action.microbatch == microbatch;
              })));
    EXPECT_NE(steps.back().text.find("is finished at " + format_time(finished_ns)),
              std::string::npos);
  }
  EXPECT_GT(checked, 1000U);
}

TEST(Steps, AreSentences) {
  Settings settings = settings_of("1f1b", 3, 4);
  settings.latency_ns = 500'000;
  const Outcome outcome = play(settings);
  std::string text;
  for (const Step& step : steps_of(*outcome.trace, 0, 1)) text += step.text + "\n";
  EXPECT_EQ(text,
            "0F1 starts at 1.00 ms, when 0F0 ends; it needs no input\n"
            "1F1 starts at 2.50 ms, when 1F0 ends and the result of 0F1 arrives\n"
            "2F1 starts at 6.00 ms, when 2B0 ends; the result of 1F1 was there at 4.00 ms\n"
            "2B1 starts at 7.00 ms, when 2F1 ends, which it needs\n"
            "1B1 starts at 9.50 ms, when 1F2 ends and the result of 2B1 arrives\n"
            "0B1 starts at 12.00 ms, when 0F3 ends and the result of 1B1 arrives. Microbatch 1 is "
            "finished at 14.00 ms, 13.00 ms after its first start\n");
  const std::vector<Step> first = steps_of(*outcome.trace, 0, 0);
  EXPECT_EQ(first.at(0).text, "0F0 starts at 0 ms: it needs nothing, and rank 0 is free");
  EXPECT_EQ(first.at(1).text,
            "1F0 starts at 1.50 ms, when the result of 0F0 arrives; rank 1 did nothing before");
  EXPECT_EQ(steps_of(*outcome.trace, 0, 3).at(0).text,
            "0F3 starts at 11.00 ms, when 0B0 ends; it needs no input");
}

// A measured start may be later than it could be, or seem to be earlier.
TEST(Steps, OfAMeasurementSayHowMuchLater) {
  OpenTrace trace = *play(settings_of("1f1b", 2, 1)).trace;
  for (Span& span : trace.run->spans) {
    if (to_text(span.action) == "1F0") {
      span.start_ns += 250'000;
      span.end_ns += 250'000;
    }
  }
  const std::vector<Step> steps = steps_of(trace, 0, 0);
  EXPECT_EQ(steps.at(1).text,
            "1F0 starts at 1.25 ms, 250 us after the result of 0F0 arrives; rank 1 did nothing "
            "before");
  EXPECT_EQ(steps.at(2).text, "1B0 starts at 2.00 ms, 250 us before 1F0 ends, which it needs");
}

TEST(Steps, OfNoSuchMicrobatchAreNone) {
  const Outcome outcome = play(settings_of("1f1b", 2, 2));
  EXPECT_TRUE(steps_of(*outcome.trace, 0, 2).empty());
  EXPECT_TRUE(steps_of(*outcome.trace, 0, -1).empty());
  EXPECT_TRUE(steps_of(OpenTrace(), 0, 0).empty());
}

}  // namespace
}  // namespace pipesim::gui
