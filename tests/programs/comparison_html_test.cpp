// The page of a comparison: sound as HTML, true to the runs, small, and never
// anything but text where a file says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "sim/report/html.h"
#include "sim/report/picture.h"
#include "sim/schedule/family.h"
#include "tests/command.h"
#include "tests/files.h"
#include "tests/markup.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "traces/base/error.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Page;
using testing::recorded;

constexpr std::int64_t no_row = -1;

Schedule schedule_of(const std::string& family, int ranks, int microbatches) {
  return generate(ScheduleRequest{family, ranks, microbatches});
}

struct Pair {
  RecordedRun predicted, measured;
  Comparison comparison;

  Pair(RecordedRun a, RecordedRun b)
      : predicted(std::move(a)), measured(std::move(b)), comparison(compare(predicted, measured)) {}
  std::string html() const { return comparison_html(predicted, measured, comparison); }
  Json data() const {
    return Json::parse(comparison_picture(predicted, measured, comparison).json);
  }
};

// 1F1B, of which stage 2 takes 1.3 as long for a forward.
Pair slow_stage(int ranks = 4, int microbatches = 8) {
  const Schedule schedule = schedule_of("1f1b", ranks, microbatches);
  const Costs planned = testing::costs_of(ranks, 1'000'000, 2'000'000, 50'000);
  Costs costs = planned;
  costs.stages[2].forward_ns = 1'300'000;
  return {recorded(schedule, planned), recorded(schedule, costs, "measured")};
}

std::vector<std::string> names_of(const Json& data, const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) {
    const Json& operation = data["operations"][row.get<std::size_t>()];
    names.push_back(to_text(
        make_action(operation[1], static_cast<Kind>(operation[0].get<int>()), operation[2])));
  }
  return names;
}

void expect_sound(const std::string& html) {
  const Page page = testing::read_page(html);
  EXPECT_EQ(page.fault, "");
  const auto scripts = page.named("script");
  ASSERT_EQ(scripts.size(), 2U);
  EXPECT_EQ(scripts[0].attributes.at("type"), "application/json");
  EXPECT_TRUE(Json::accept(scripts[0].raw));
  EXPECT_EQ(scripts[0].raw.find('<'), std::string::npos);
  EXPECT_EQ(scripts[1].attributes.at("type"), "module");
  EXPECT_EQ(html.find("://"), std::string::npos);  // nothing from elsewhere
  std::set<std::string> ids;
  for (const testing::Element& element : page.elements) {
    for (const char* source : {"src", "href"}) EXPECT_FALSE(element.attributes.contains(source));
    if (element.attributes.contains("id")) {
      EXPECT_TRUE(ids.insert(element.attributes.at("id")).second) << element.attributes.at("id");
    }
  }
  // What the script looks for is there.
  const std::regex wanted("element\\(\"([a-z]+)\"\\)");
  int found = 0;
  for (std::sregex_iterator at(scripts[1].raw.begin(), scripts[1].raw.end(), wanted), end;
       at != end; ++at, ++found) {
    EXPECT_TRUE(ids.contains((*at)[1])) << (*at)[1];
  }
  EXPECT_GT(found, 5);
}

TEST(ComparisonHtml, IsSoundAndTheSameTwice) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const Pair pair(recorded(schedule, testing::random_costs(random, schedule)),
                    recorded(schedule, testing::random_costs(random, schedule), "measured"));
    const std::string html = pair.html();
    expect_sound(html);
    EXPECT_EQ(html, pair.html());
  }
  const RecordedRun run = slow_stage().predicted;
  expect_sound(Pair(run, run).html());  // nothing differs
}

TEST(ComparisonHtml, IsSoundWhereRunsHaveLittleInCommon) {
  std::mt19937_64 random(4);
  int compared = 0;
  for (int i = 0; i < 200; ++i) {
    const Schedule one = testing::random_schedule(random);
    Schedule other = testing::random_schedule(random);
    while (other.stages() != one.stages()) other = testing::random_schedule(random);
    RecordedRun measured = recorded(other, testing::random_costs(random, other), "measured");
    testing::shift_clock(measured, 0, testing::pick(random, -2'000, 2'000));
    try {
      const Pair pair(recorded(one, testing::random_costs(random, one)), std::move(measured));
      expect_sound(pair.html());
      ++compared;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 1);  // nothing in common
    }
  }
  EXPECT_GT(compared, 100);
}

// Against the spans, which the page's data never saw as such.
TEST(ComparisonHtml, HoldsAllOperationsWithTheirTimes) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const Pair pair(recorded(schedule, testing::random_costs(random, schedule)),
                    recorded(schedule, testing::random_costs(random, schedule), "measured"));
    const Json data = pair.data();
    const Json& rows = data["operations"];
    std::set<std::int64_t> openers;
    for (const Json& row : rows) openers.insert(row[6].get<std::int64_t>());
    std::size_t spans = 0;
    for (const Side side : both_sides) {
      std::map<std::string, Span> by_name;
      const RecordedRun& run = side == predicted_side ? pair.predicted : pair.measured;
      for (const Span& span : run.spans) by_name[to_text(span.action)] = span;
      spans += by_name.size();
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const Json& own = rows[r][3 + side];
        const Action action =
            make_action(rows[r][1], static_cast<Kind>(rows[r][0].get<int>()), rows[r][2]);
        const bool transfer = is_send(action.kind);
        const auto at = by_name.find(to_text(transfer ? peer_of(action) : action));
        EXPECT_EQ(own.is_null(), at == by_name.end()) << to_text(action);
        if (own.is_null() || at == by_name.end()) continue;
        const Span& span = at->second;
        EXPECT_EQ(own[0], span.rank);
        spans -= transfer ? 2 : 1;
        if (openers.contains(static_cast<std::int64_t>(r))) continue;  // its backward has the time
        std::int64_t start = span.start_ns;
        std::int64_t end = span.end_ns;
        if (rows[r][6] != no_row) {
          const Span& forward = by_name.at(names_of(data, Json::array({rows[r][6]})).front());
          start = std::min(start, forward.start_ns);
          end = std::max(end, forward.end_ns);
        }
        EXPECT_EQ(own[2], start) << to_text(action);
        EXPECT_EQ(own[3], end) << to_text(action);
        EXPECT_EQ(own[1].get<std::int64_t>() < 0, transfer);
        EXPECT_EQ(own.size(), transfer ? 6U : 5U);
        if (transfer) {
          EXPECT_EQ(own[5], by_name.at(to_text(action)).rank);
        }
      }
    }
    EXPECT_EQ(spans, 0U);  // each is in the page once
  }
}

TEST(ComparisonHtml, LatenessIsWhatEndsLater) {
  const Json data = slow_stage().data();
  int late = 0;
  for (const Json& row : data["operations"]) {
    if (row[5].is_null()) continue;
    std::int64_t sum = 0;
    for (const Json& part : row[5]) sum += part.get<std::int64_t>();
    EXPECT_EQ(sum, row[4][3].get<std::int64_t>() - row[3][3].get<std::int64_t>());
    late += sum > 0 ? 1 : 0;
  }
  EXPECT_GT(late, 20);
}

TEST(ComparisonHtml, CausesAndPathsPointAtTheirActions) {
  const Pair pair = slow_stage();
  const Json data = pair.data();
  ASSERT_EQ(data["causes"].size(), 1U);
  EXPECT_EQ(names_of(data, data["causes"][0]),
            (std::vector<std::string>{"2F0", "2F1", "2F2", "2F3", "2F4", "2F5", "2F6", "2F7"}));
  for (const Side side : both_sides) {
    std::vector<std::string> path;
    for (const OperationId id : pair.comparison.sides[side].played.critical_path) {
      path.push_back(to_text(pair.comparison.operations.actions[id]));
    }
    std::ranges::sort(path);
    std::vector<std::string> drawn = names_of(data, data["critical"][side]);
    std::ranges::sort(drawn);
    EXPECT_EQ(drawn, path);
  }
}

TEST(ComparisonHtml, ASlowLinkPointsAtItsTransfers) {
  const Schedule schedule = schedule_of("gpipe", 3, 4);
  const Costs planned = testing::costs_of(3, 1'000, 2'000, 20);
  Costs costs = planned;
  costs.edges[{0, 1}] = {900, {}, {}};
  const Json data = Pair(recorded(schedule, planned), recorded(schedule, costs, "m")).data();
  ASSERT_FALSE(data["causes"].empty());
  EXPECT_EQ(names_of(data, data["causes"][0]),
            (std::vector<std::string>{"0SEND_F0", "0SEND_F1", "0SEND_F2", "0SEND_F3"}));
}

TEST(ComparisonHtml, WhatFilesSayIsText) {
  Pair pair = slow_stage();
  const std::string nasty = "</title></script><script>alert(1)</script>{{data}}&amp;\"'\x01\xff";
  pair.predicted.name = nasty;
  pair.measured.name = "<!-- " + nasty;
  pair.measured.warnings.add(nasty + " taken as 0", nasty);
  const std::string html = pair.html();
  expect_sound(html);
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  // All of it, as text: what stood for the data does not get it twice.
  const std::string safe =
      "&lt;script&gt;alert(1)&lt;/script&gt;{{data}}&amp;amp;&quot;&#39;\\x01\xef\xbf\xbd";
  const std::string text = testing::read_page(html).text;
  std::size_t seen = 0;
  for (std::size_t at = 0; (at = text.find(safe, at)) != std::string::npos; ++at) ++seen;
  EXPECT_EQ(seen, 6U);  // title, head, warning, two each
}

TEST(ComparisonHtml, NamesNoiseBesideCauses) {
  Pair pair = slow_stage();
  EXPECT_EQ(pair.html().find("noise: "), std::string::npos);
  pair.comparison.noise.effect_ns = 12'345;
  const std::string text = testing::read_page(pair.html()).text;
  EXPECT_NE(text.find("noise: variation between its own iterations"), std::string::npos);
  expect_sound(pair.html());
}

TEST(ComparisonHtml, OfManyRanksSomeAndThoseOfTheCauses) {
  const int ranks = 100;
  const Schedule schedule = schedule_of("1f1b", ranks, 4);
  const Costs planned = testing::costs_of(ranks, 1'000, 2'000);
  Costs costs = planned;
  costs.stages[47].forward_ns = 3'000;
  const Pair pair(recorded(schedule, planned), recorded(schedule, costs, "measured"));
  const Json data = pair.data();
  const auto shown = data["ranks"].get<std::vector<int>>();
  EXPECT_TRUE(std::ranges::is_sorted(shown));
  for (const int rank : {0, 47, 99}) {
    EXPECT_TRUE(std::ranges::binary_search(shown, rank)) << rank;
  }
  EXPECT_LT(shown.size(), 25U);
  EXPECT_EQ(data["all_ranks"], ranks);
  EXPECT_EQ(names_of(data, data["causes"][0]),
            (std::vector<std::string>{"47F0", "47F1", "47F2", "47F3"}));
  expect_sound(pair.html());
  EXPECT_NE(pair.html().find("of 100 ranks"), std::string::npos);
}

// Of what is left out a large page says that it is.
TEST(ComparisonHtml, StaysSmallWithoutTransfersAndInBlocks) {
  const std::size_t most_bytes = 5'000'000;
  const Pair many = slow_stage(32, 400);
  const Json data = many.data();
  ASSERT_TRUE(data.contains("operations"));
  for (const Json& row : data["operations"]) EXPECT_LE(row[0], static_cast<int>(Kind::B));
  EXPECT_EQ(data["operations"].size(), data["ranks"].size() * 800);
  EXPECT_LT(many.html().size(), most_bytes);
  EXPECT_NE(many.html().find("Transfers are left out"), std::string::npos);

  const Pair more = slow_stage(32, 1000);
  const Json merged = more.data();
  ASSERT_FALSE(merged.contains("operations"));
  EXPECT_LT(more.html().size(), most_bytes);
  EXPECT_NE(more.html().find("drawn as one block"), std::string::npos);
  // The blocks of a track follow each other and hold all of its actions and time.
  struct Track {
    std::int64_t count = 0, end = 0, busy = 0;
  };
  std::map<std::pair<int, int>, Track> tracks;
  for (const Json& block : merged["blocks"]) {
    const int side = block[0];
    const int rank = block[1];
    Track& track = tracks[{side, rank}];
    EXPECT_EQ(block[2], track.count);
    EXPECT_GE(block[4], track.end);
    track.count += block[3].get<std::int64_t>();
    track.end = block[5];
    for (const Json& ns : block[6]) track.busy += ns.get<std::int64_t>();
    const auto place = static_cast<OperationId>(block[2].get<int>());
    const auto& list = more.comparison.operations
                           .lists[static_cast<std::size_t>(side)][static_cast<std::size_t>(rank)];
    EXPECT_EQ(block[9], to_text(more.comparison.operations.actions[list[place]]));
  }
  EXPECT_EQ(tracks.size(), 2 * merged["ranks"].size());
  for (const auto& [place, track] : tracks) {
    EXPECT_EQ(track.count, 2'000);
    const auto& ranks = more.comparison.sides[static_cast<std::size_t>(place.first)].ranks;
    EXPECT_EQ(track.busy, ranks[static_cast<std::size_t>(place.second)].busy_ns);
  }
  // The slow stage is shown, and its blocks are the cause's.
  ASSERT_FALSE(merged["causes"].empty());
  ASSERT_FALSE(merged["causes"][0].empty());
  for (const Json& row : merged["causes"][0]) {
    EXPECT_EQ(merged["blocks"][row.get<std::size_t>()][1], 2);
  }
}

// Samples at times of a trace whose iteration starts late, on clock offsets between ranks.
TEST(ComparisonHtml, MemoryCurvesKeepTheirPeaksAndTheirTimes) {
  std::mt19937_64 random(3);
  Pair pair = slow_stage();
  RecordedRun run = pair.predicted;
  for (int i = 0; i < 20'000; ++i) {
    MemorySample sample;
    sample.rank = static_cast<std::int32_t>(testing::pick(random, 0, 3));
    sample.time_ns = testing::pick(random, 0, run.iterations.front().makespan_ns);
    sample.working.activations = testing::pick(random, 1, 1'000'000);
    sample.states.weights = 1'000;
    run.samples.push_back(sample);
  }
  run.samples.sort_by_time();
  RecordedRun shifted = run;
  testing::shift_clock(shifted, 1, 7'000'000);
  shifted.samples.clear();
  for (MemorySample sample : run.samples) {
    if (sample.rank == 1) sample.time_ns += 7'000'000;
    shifted.samples.push_back(sample);
  }
  shifted.samples.sort_by_time();
  const Json memory = Pair(run, shifted).data()["memory"];
  ASSERT_EQ(memory[0].size(), 4U);
  EXPECT_TRUE(memory[0] == memory[1]);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::int64_t peak = 0;
    std::set<std::pair<std::int64_t, std::int64_t>> points;
    for (const MemorySample& sample : run.samples) {
      if (sample.rank != static_cast<int>(rank)) continue;
      const std::int64_t bytes = sample.working.total() + sample.states.total();
      peak = std::max(peak, bytes);
      points.emplace(sample.time_ns, bytes);
    }
    const auto curve = memory[0][rank].get<std::vector<std::int64_t>>();
    EXPECT_LE(curve.size(), 800U);
    EXPECT_GT(curve.size(), 400U);
    std::int64_t drawn = 0;
    for (std::size_t i = 0; i < curve.size(); i += 2) {
      drawn = std::max(drawn, curve[i + 1]);
      EXPECT_TRUE(points.contains({curve[i], curve[i + 1]}));
      if (i > 0) {
        EXPECT_GE(curve[i], curve[i - 2]);
      }
    }
    EXPECT_EQ(drawn, peak);
  }
}

// ---- As a user drives it

class ComparisonHtmlCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    trace("1ms,1ms,1ms,1ms", predicted_);
    trace("1ms,1ms,1.3ms,1ms", measured_);
  }
  void trace(const std::string& forward, const std::string& path) const {
    const testing::Outcome outcome =
        testing::pipesim({"--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--quiet",
                          "--forward", forward, "--activation-bytes", "1MiB", "--trace", path});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  testing::Outcome compare_to(const std::string& html,
                              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"compare", predicted_, measured_, "--html", html};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return testing::pipesim(arguments);
  }

  testing::TemporaryFolder folder_;
  std::string predicted_ = folder_ / "predicted.json";
  std::string measured_ = folder_ / "measured.json";
};

TEST_F(ComparisonHtmlCommand, WritesThePageBesideTheReport) {
  const std::string html = folder_ / "report.html";
  const testing::Outcome outcome = compare_to(html);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Page: " + html), std::string::npos);
  const std::string page = read_file(html);
  expect_sound(page);
  EXPECT_NE(page.find("2F on rank 2"), std::string::npos);
  EXPECT_NE(page.find("predicted.json"), std::string::npos);
  const Json data = Json::parse(testing::read_page(page).named("script").front().raw);
  const Json result = Json::parse(compare_to(html, {"--json"}).out);
  EXPECT_EQ(data["makespan_ns"][0], result["makespan_ns"]["predicted"]);
  EXPECT_EQ(data["makespan_ns"][1], result["makespan_ns"]["measured"]);
  EXPECT_EQ(data["causes"].size(), result["root_causes"].size());
  // Both are predictions, whatever their files are called.
  EXPECT_EQ(data["sides"], Json({"first", "second"}));
  EXPECT_EQ(data["nouns"], Json({"first run", "second run"}));
  std::string words = testing::read_page(page).text;
  for (std::size_t at = 0; (at = words.find(folder_.path().string())) != std::string::npos;) {
    words.erase(at, words.find(".json", at) - at);
  }
  EXPECT_EQ(words.find("predict"), std::string::npos) << words.substr(words.find("predict"), 80);
  EXPECT_EQ(words.find("measure"), std::string::npos) << words.substr(words.find("measure"), 80);
  ASSERT_EQ(data["memory"][1].size(), 4U);
  EXPECT_EQ(data["memory"][1][0][1], 1 << 20);
  EXPECT_EQ(read_file(html), page);
}

TEST_F(ComparisonHtmlCommand, NothingIsLeftOfAPageThatFails) {
  testing::expect_one_sentence(compare_to(folder_ / "missing/report.html"), "pipesim", "--html", 2,
                               "missing/report.html");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "missing"));
  testing::expect_one_sentence(compare_to(folder_ / "report.html.gz"), "pipesim", "--html", 2,
                               "omit .gz");
  write_file(measured_, "no trace");
  EXPECT_EQ(compare_to(folder_ / "report.html").status, 2);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_TRUE(entry.path() == predicted_ || entry.path() == measured_) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 2);
}

TEST_F(ComparisonHtmlCommand, NeverWritesOverWhatItReads) {
  const std::string before = read_file(predicted_) + read_file(measured_);
  const std::string sentence = "name the same file";
  testing::expect_one_sentence(compare_to(predicted_), "pipesim", "--html", 2,
                               "PREDICTED and --html " + sentence);
  testing::expect_one_sentence(compare_to((folder_.path() / "." / "measured.json").string()),
                               "pipesim", "--html", 2, "MEASURED and --html " + sentence);
  const std::string both = folder_ / "both";
  testing::expect_one_sentence(compare_to(both, {"--operations", both}), "pipesim", "--html", 2,
                               "--operations and --html " + sentence);
  EXPECT_FALSE(std::filesystem::exists(both));
  testing::expect_one_sentence(
      testing::pipesim({"compare", predicted_, measured_, "--operations", measured_}), "pipesim",
      "--operations", 2, "MEASURED and --operations " + sentence);
  EXPECT_EQ(read_file(predicted_) + read_file(measured_), before);
}

}  // namespace
}  // namespace pipesim
