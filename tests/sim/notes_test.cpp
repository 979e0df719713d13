// Notes on common mistakes, against closed forms and second predictions: there for a shape that
// has the mistake, and not for its healthy neighbour.
#include "sim/request/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sim/advice/receive_choices.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct Noted {
  Prediction prediction;
  std::vector<Note> notes;

  std::int64_t ns() const { return prediction.metrics.makespan_ns; }
  const Note* find(const std::string& key) const {
    const auto found = std::ranges::find(notes, key, &Note::key);
    return found == notes.end() ? nullptr : &*found;
  }
  std::int64_t gain_of(const std::string& key) const {
    const Note* note = find(key);
    return note == nullptr ? 0 : note->gain_ns;
  }
};

struct AskedShape {
  ScheduleRequest schedule;
  CostRequest costs = {};
  int accumulate = 1;
};

template <typename Given>
CostRequest with_costs(const Given& costs) {
  CostRequest request;
  request.costs = costs;
  return request;
}

PredictionRequest shape_request(const AskedShape& asked) {
  PredictionRequest request;
  request.schedule = choose_schedule(asked.schedule);
  request.costs = asked.costs;
  request.accumulate = asked.accumulate;
  return request;
}

Prediction predict_shape(const AskedShape& asked) {
  return prepare(shape_request(asked)).predict();
}

Noted notes_on(const AskedShape& asked) {
  const PreparedPrediction prepared = prepare(shape_request(asked));
  Noted noted{prepared.predict(), {}};
  noted.notes = find_notes(prepared, noted.prediction, asked.schedule);
  for (const Note& note : noted.notes) {
    EXPECT_GT(note.gain_ns, 0);
    EXPECT_LT(note.gain_ns, noted.ns() * asked.accumulate);
    EXPECT_FALSE(note.text.empty());
    // It is a section of the page.
    EXPECT_NE(read_file(testing::source_file("sim/LESSONS.md")).find("\n## " + note.lesson + "\n"),
              std::string::npos);
  }
  return noted;
}

constexpr std::int64_t usual_pass_ns = 3'000'000;  // F + B, by default

// m microbatches take (m + p - 1)(F + B), of which (p - 1)(F + B) are bubble.
TEST(Notes, FewMicrobatchesCostTheClosedFormsBubble) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int p = 2; p <= 7; ++p) {
      for (int m = 1; m <= 2 * p; ++m) {
        const Noted noted = notes_on({{.name = name, .ranks = p, .microbatches = m}});
        if (m >= p) {
          EXPECT_TRUE(noted.notes.empty()) << name << " " << p << " " << m;
          continue;
        }
        const std::int64_t at_p = (2 * p - 1) * usual_pass_ns;
        const std::int64_t gain_ns = (m + p - 1) * usual_pass_ns - at_p * m / p;
        EXPECT_LE(std::abs(noted.gain_of("few-microbatches") - gain_ns), 1) << p << " " << m;
        const auto bubble = [&](int count) {
          return format_percent(static_cast<double>(p - 1) / (count + p - 1));
        };
        ASSERT_NE(noted.find("few-microbatches"), nullptr);
        EXPECT_EQ(noted.find("few-microbatches")->text,
                  fmt::format("{} on {} stages leave {} of the time to the bubble; it is {} with "
                              "{}, {} with {}, {} with {}.",
                              plural(m, "microbatch"), p, bubble(m), bubble(p), p, bubble(2 * p),
                              2 * p, bubble(4 * p), 4 * p));
      }
    }
  }
}

// One microbatch at a time passes through all ranks, however many there are.
TEST(Notes, MoreMicrobatchesAreNotAdvisedInVain) {
  EXPECT_TRUE(notes_on({{.name = "naive", .ranks = 4, .microbatches = 2}}).notes.empty());
}

// 1F1B drains before its first rank goes on, so that K iterations take K(m + p - 1)(F + B).
TEST(Notes, AccumulationOverIterationsCostsABubbleForEach) {
  for (int p = 2; p <= 4; ++p) {
    for (int passes = 1; passes <= 3; ++passes) {
      const AskedShape asked{{.name = "1f1b", .ranks = p, .microbatches = 4 * p}, {}, passes};
      EXPECT_EQ(notes_on(asked).gain_of("accumulation"), (passes - 1) * (p - 1) * usual_pass_ns);
    }
  }
  // All at once would take more memory.
  const AskedShape asked{{.name = "gpipe", .ranks = 4, .microbatches = 4}, {}, 4};
  EXPECT_EQ(notes_on(asked).find("accumulation"), nullptr);
  EXPECT_EQ(notes_on({{.name = "1f1b", .ranks = 1, .microbatches = 4}, {}, 4}).notes.size(), 0U);
}

// By what 1F1B takes with both chunks of a rank in one.
TEST(Notes, ASplitBackwardIsComparedWithAWholeOne) {
  std::mt19937_64 random(11);
  int noted = 0;
  for (int i = 0; i < 60; ++i) {
    const bool has_chunks = i % 3 != 0;
    const std::int64_t forward_ns = testing::pick(random, 1'000, 9'000);
    const std::int64_t input_ns = testing::pick(random, 1'000, 9'000);
    const std::int64_t weight_ns = testing::pick(random, 1'000, 9'000);
    GivenCosts costs;
    costs.forward_ns = {forward_ns};
    costs.backward_input_ns = {input_ns};
    costs.backward_weight_ns = {weight_ns};
    costs.p2p.latency_ns = testing::pick(random, 0, 1) * testing::pick(random, 0, 90'000);
    const auto ranks = static_cast<int>(testing::pick(random, 2, 5));
    const char* name = i % 3 == 0 ? "zb-h1" : i % 3 == 1 ? "interleaved-zb" : "zb-v";
    const AskedShape split{{.name = name, .ranks = ranks, .microbatches = 4 * ranks},
                           with_costs(costs)};
    const std::int64_t chunks = has_chunks ? 2 : 1;
    costs.forward_ns = {chunks * forward_ns};
    costs.backward_input_ns = {chunks * input_ns};
    costs.backward_weight_ns = {chunks * weight_ns};
    const AskedShape whole{{.name = "1f1b", .ranks = ranks, .microbatches = 4 * ranks},
                           with_costs(costs)};
    const Noted found = notes_on(split);
    const std::int64_t gain_ns = found.ns() - predict_shape(whole).metrics.makespan_ns;
    EXPECT_EQ(found.gain_of("split-backward"),
              gain_ns > 0 && gain_ns >= found.ns() / 50 ? gain_ns : 0)
        << name << " " << i;
    noted += found.find("split-backward") != nullptr ? 1 : 0;
    EXPECT_TRUE(notes_on(whole).notes.empty());
  }
  EXPECT_GT(noted, 5);
  EXPECT_LT(noted, 55);
}

TEST(Notes, AnEndThatTakesLongerIsFound) {
  for (const int stage : {0, 1, 2, 3}) {
    GivenCosts costs;
    costs.forward_ns.assign(4, 1'000'000);
    costs.forward_ns[static_cast<std::size_t>(stage)] = 3'000'000;
    const AskedShape asked{{.name = "1f1b", .ranks = 4, .microbatches = 8}, with_costs(costs)};
    const Noted noted = notes_on(asked);
    if (stage == 1 || stage == 2) {  // no end
      EXPECT_TRUE(noted.notes.empty());
      continue;
    }
    AskedShape even = asked;
    costs.forward_ns.assign(4, 1'500'000);
    even.costs.costs = costs;
    EXPECT_EQ(noted.gain_of("heavy-end"), noted.ns() - predict_shape(even).metrics.makespan_ns);
    ASSERT_NE(noted.find("heavy-end"), nullptr);
    EXPECT_TRUE(noted.find("heavy-end")
                    ->text.starts_with(stage == 0 ? "The first stage takes 1.43 times"
                                                  : "The last stage takes 1.43 times"))
        << noted.find("heavy-end")->text;
  }
}

AskedShape shape_of_layers(const std::vector<std::int64_t>& times, int ranks) {
  CostsFile file;
  for (const std::int64_t ns : times) {
    StageCosts& layer = file.layers.emplace_back();
    layer.forward_ns = ns;
    layer.split_backward(2 * ns);
  }
  return {{.name = "1f1b", .ranks = ranks, .microbatches = 4 * ranks}, with_costs(file)};
}

// The least that the slowest stage can take, and of it a prediction.
TEST(Notes, ALayoutMendsAHeavyHead) {
  std::mt19937_64 random(3);
  int mended = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<std::int64_t> times(8, 1'000);
    times.back() = testing::pick(random, 1'000, 6'000);
    AskedShape asked = shape_of_layers(times, 3);
    const Noted noted = notes_on(asked);
    // All layouts of eight layers on three stages.
    const auto slowest = [&](const std::vector<int>& layout) {
      std::int64_t most = 0;
      std::size_t at = 0;
      for (const int count : layout) {
        std::int64_t ns = 0;
        for (int l = 0; l < count; ++l) ns += times[at++];
        most = std::max(most, ns);
      }
      return most;
    };
    std::int64_t least = slowest({1, 1, 6});
    for (int a = 1; a <= 6; ++a) {
      for (int b = 1; a + b <= 7; ++b) least = std::min(least, slowest({a, b, 8 - a - b}));
    }
    const Note* note = noted.find("heavy-end");
    if (note == nullptr) {
      EXPECT_LE(slowest({3, 3, 2}), least + least / 10) << times.back();
      continue;
    }
    ++mended;
    const std::size_t at = note->text.find("--layout ") + 9;
    std::vector<int> layout;
    const std::string advised = note->text.substr(at, note->text.find(' ', at) - at);
    for (const auto part : split(advised, ',')) {
      layout.push_back(parse_count(part, "layout"));
    }
    EXPECT_EQ(slowest(layout), least);
    asked.costs.layout = layout;
    EXPECT_EQ(note->gain_ns, noted.ns() - predict_shape(asked).metrics.makespan_ns);
    EXPECT_NE(note->text.find(fmt::format("the last layer takes as long as {:.1f} others",
                                          static_cast<double>(times.back()) / 1'000)),
              std::string::npos)
        << note->text;
    EXPECT_TRUE(notes_on(asked).notes.empty()) << "it is mended";
  }
  EXPECT_GT(mended, 5);
  // Layers alike that don't divide: no layer is to blame.
  EXPECT_TRUE(notes_on(shape_of_layers(std::vector<std::int64_t>(7, 1'000), 2)).notes.empty());
}

// By the program with its receives where messages are sent.
TEST(Notes, ReceivesThatHoldRanksUpAreFound) {
  for (const P2p mode : {P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
    GivenCosts costs;
    costs.p2p.latency_ns = 100'000;
    AskedShape asked{{.name = "interleaved", .ranks = 4, .microbatches = 8}, with_costs(costs)};
    asked.costs.p2p = mode;
    const Noted noted = notes_on(asked);
    if (mode == P2p::async || mode == P2p::edge_fifo) {
      EXPECT_TRUE(noted.notes.empty());
      continue;
    }
    PredictionRequest timed = shape_request(asked);
    const Costs resolved = CostSource(asked.costs).resolve(timed.schedule.schedule);
    const Schedule program = with_receives(timed.schedule.schedule, Receives::timed, resolved, {});
    SimulationOptions options;
    options.transfers.mode = mode;
    EXPECT_EQ(noted.gain_of("receives"),
              noted.ns() - simulate(program, resolved, options).makespan_ns);
    EXPECT_GT(noted.gain_of("receives"), 5'000'000);  // as sim/README.md shows
  }
}

// A file's schedule was generated from nothing; what asks for another one is left out.
TEST(Notes, AreOfSchedulesFromFilesToo) {
  GivenCosts costs;
  costs.forward_ns = {1'000'000, 1'000'000, 4'000'000};
  PredictionRequest request =
      shape_request({{.name = "1f1b", .ranks = 3, .microbatches = 2}, with_costs(costs)});
  request.schedule.family = nullptr;
  const PreparedPrediction prepared = prepare(request);
  const std::vector<Note> notes = find_notes(prepared, prepared.predict(), std::nullopt);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].key, "heavy-end");
}

// Large schedules are predicted in no more than one simulation.
TEST(Notes, AreNotOfLargeSchedules) {
  const AskedShape asked{{.name = "1f1b", .ranks = 400, .microbatches = 399}};
  EXPECT_TRUE(notes_on(asked).notes.empty());
}

}  // namespace
}  // namespace pipesim
