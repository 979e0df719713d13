// Files for flame graphs: folded stacks, and speedscope's form, checked as it is published.
#include "traces/flame/stack_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/events.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "tests/stacks.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::stacks_of;
using testing::TemporaryFolder;

std::string written(const Stacks& stacks, const std::string& name, bool gzip = false) {
  const TemporaryFolder folder;
  OutputFile file(folder / name, gzip);
  write_stacks(stacks, "a \"name\"", stack_format_of(name, "--flame"), file);
  file.commit();
  InputFile input(folder / name);
  std::string text(1 << 20, '\0');
  text.resize(input.read(text.data(), text.size()));
  return text;
}

Stacks stacks_of_run() {
  StackCollector collector;
  const Schedule schedule = generate(ScheduleRequest{"interleaved", 4, 8, 2, {}, {}});
  collector.add(testing::recorded(schedule, testing::costs_of(8, 100, 200, 30)));
  return collector.take();
}

// ---- https://www.speedscope.app/file-format-schema.json, as src/lib/file-format-spec.ts of
// github.com/jlfwong/speedscope (1.25.0) states it, and no member beside.

void expect_members(const Json& object, const std::set<std::string>& required,
                    const std::set<std::string>& optional = {}) {
  ASSERT_TRUE(object.is_object());
  for (const std::string& key : required) EXPECT_TRUE(object.contains(key)) << key;
  for (const auto& [key, value] : object.items()) {
    EXPECT_TRUE(required.contains(key) || optional.contains(key)) << key;
  }
}

void expect_frame(const Json& frame) {
  expect_members(frame, {"name"}, {"file", "line", "col"});
  EXPECT_TRUE(frame["name"].is_string());
}

const std::set<std::string> units{"none",         "nanoseconds", "microseconds",
                                  "milliseconds", "seconds",     "bytes"};

// "Every opened stack frame must have a corresponding close frame event, and the ordering must
// be balanced"; "at" "must be in non-decreasing order".
void expect_evented(const Json& profile, std::size_t frames) {
  expect_members(profile, {"type", "name", "unit", "startValue", "endValue", "events"});
  EXPECT_EQ(profile["type"], "evented");
  EXPECT_TRUE(profile["name"].is_string());
  EXPECT_TRUE(units.contains(profile["unit"].get<std::string>()));
  std::int64_t at = profile["startValue"].get<std::int64_t>();
  const auto end = profile["endValue"].get<std::int64_t>();
  EXPECT_LE(at, end);
  // JavaScript's numbers are whole up to there.
  EXPECT_LE(end, std::int64_t{1} << 53);
  std::vector<std::size_t> open;
  for (const Json& event : profile["events"]) {
    expect_members(event, {"type", "frame", "at"});
    ASSERT_TRUE(event["frame"].is_number_unsigned() && event["at"].is_number_integer());
    const auto frame = event["frame"].get<std::size_t>();
    EXPECT_LT(frame, frames);
    EXPECT_GE(event["at"].get<std::int64_t>(), at);
    at = event["at"].get<std::int64_t>();
    if (event["type"] == "O") {
      open.push_back(frame);
      continue;
    }
    ASSERT_EQ(event["type"], "C");
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(open.back(), frame);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
  EXPECT_LE(at, end);
}

Json expect_speedscope(const std::string& text) {
  Json file = Json::parse(text);
  expect_members(file, {"$schema", "shared", "profiles"},
                 {"name", "activeProfileIndex", "exporter"});
  EXPECT_EQ(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
  EXPECT_TRUE(file["name"].is_string() && file["exporter"].is_string());
  EXPECT_LT(file["activeProfileIndex"].get<std::size_t>(), file["profiles"].size());
  expect_members(file["shared"], {"frames"});
  for (const Json& frame : file["shared"]["frames"]) expect_frame(frame);
  for (const Json& profile : file["profiles"]) {
    expect_evented(profile, file["shared"]["frames"].size());
  }
  return file;
}

TEST(StackFiles, OfARunAreAsSpeedscopeWantsThem) {
  const Stacks stacks = stacks_of_run();
  const Json file = expect_speedscope(written(stacks, "a.speedscope.json"));
  EXPECT_EQ(file["name"], "a \"name\"");
  ASSERT_EQ(file["profiles"].size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const Json& profile = file["profiles"][rank];
    EXPECT_EQ(profile["name"], "step 0, rank " + std::to_string(rank));
    EXPECT_EQ(profile["startValue"], 0);
    EXPECT_EQ(profile["endValue"], stacks.lines[rank].end_ns);
    EXPECT_EQ(profile["events"].size(), stacks.lines[rank].events.size());
  }
}

// Nanoseconds since 1970 have more digits than JavaScript's numbers.
TEST(StackFiles, TimesCountFromTheFirstStart) {
  EventTrace events = gui::testing::events();
  for (Slice& slice : events.slices) {
    slice.start_ns += 1'700'000'000'000'000'000;
    slice.end_ns += 1'700'000'000'000'000'000;
  }
  const Json file = expect_speedscope(written(stacks_of(events), "a.json"));
  ASSERT_EQ(file["profiles"].size(), 2U);
  EXPECT_EQ(file["profiles"][0]["startValue"], 0);
  EXPECT_EQ(file["profiles"][0]["endValue"], 8000);
  EXPECT_EQ(file["profiles"][1]["startValue"], 5000);
  EXPECT_EQ(file["profiles"][1]["name"], "gpu 0, stream 7");
  EXPECT_EQ(written(stacks_of(events), "a.json.gz", true), written(stacks_of(events), "a.json"));
}

// As stackcollapse's readers split them: at semicolons, and at the last blank.
TEST(StackFiles, FoldedLinesAreWholeAndSorted) {
  EventTrace events = gui::testing::events();
  events.texts[3] = "a;b\nc 12";
  events.texts[4] = "";
  events.texts[5] = "\"\xff quoted\"";
  const std::string text = written(stacks_of(events), "a.folded");
  EXPECT_EQ(text,
            "gpu 0;stream 7;kernel 14000\n"
            "python 1;thread 7;a:b\\x0ac 12 2500\n"
            "python 1;thread 7;a:b\\x0ac 12;\"\\xff quoted\" 4000\n"
            "python 1;thread 7;a:b\\x0ac 12;(no name) 1500\n");
  const Json file = expect_speedscope(written(stacks_of(events), "a.json"));
  EXPECT_EQ(file["shared"]["frames"][2]["name"], "a;b\nc 12");
}

TEST(StackFiles, FoldedTimesSumToThoseOfAllRanks) {
  const Stacks stacks = stacks_of_run();
  std::istringstream lines(written(stacks, "a.txt"));
  std::int64_t sum = 0;
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.rfind(' ');
    sum += std::stoll(line.substr(blank + 1));
    EXPECT_EQ(std::count(line.begin(), line.end(), ';'), 4) << line;
    EXPECT_LT(last, line);
    last = line;
  }
  EXPECT_EQ(sum, 4 * stacks.lines[0].end_ns);
}

TEST(StackFiles, EndingsSayTheForm) {
  for (const char* name : {"a.folded", "a.txt", "x/a.folded.gz", "a.txt.gz"}) {
    EXPECT_EQ(stack_format_of(name, "--flame"), StackFormat::folded) << name;
  }
  for (const char* name : {"a.json", "a.speedscope.json", "a.speedscope.json.gz"}) {
    EXPECT_EQ(stack_format_of(name, "--flame"), StackFormat::speedscope) << name;
  }
  for (const char* name : {"a", "a.svg", "a.gz", "folded", "a.json.bz2", ""}) {
    const std::string error = testing::input_error_of([&] { stack_format_of(name, "--flame"); });
    EXPECT_TRUE(error.starts_with("--flame: ")) << error;
    EXPECT_NE(error.find(".speedscope.json"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace pipesim
