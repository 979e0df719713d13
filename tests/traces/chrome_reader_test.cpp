// Chrome traces as they occur in the wild, rule by rule: FORMAT.md, "Traces that
// are read".
#include "traces/read/chrome_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/decimal.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

// An event that outlives its visit.
struct Event {
  char phase;
  std::string name, category, pid, tid, id;
  std::optional<std::int64_t> ts_ns, dur_ns;
  bool binds_enclosing;
  std::vector<std::pair<std::string, std::string>> args;
  std::int64_t index;

  bool operator==(const Event&) const = default;
};

struct Read {
  ChromeTrace trace;
  std::vector<Event> events;
  Warnings warnings;

  Event only() const {
    EXPECT_EQ(events.size(), 1U) << warnings.text();
    return events.at(0);
  }
  // How often it was complained of something that is called so.
  std::int64_t warned(std::string_view what) const {
    std::int64_t count = 0;
    for (const Warnings::Kind& kind : warnings.kinds()) {
      if (kind.what.find(what) != std::string::npos) count += kind.count;
    }
    return count;
  }
};

Read read_file_of(const std::string& path) {
  Read read;
  read.trace = read_chrome_trace(
      path,
      [&](const ChromeEvent& event) {
        Event own{event.phase,
                  std::string(event.name),
                  std::string(event.category),
                  std::string(event.pid),
                  std::string(event.tid),
                  std::string(event.id),
                  event.ts_ns,
                  event.dur_ns,
                  event.binds_enclosing,
                  {},
                  event.index};
        for (const auto& [key, text] : event.args) own.args.emplace_back(key, text);
        read.events.push_back(std::move(own));
      },
      read.warnings);
  EXPECT_EQ(read.trace.events, std::ssize(read.events));
  return read;
}

std::string gzip_of(const std::string& text) {
  const testing::TemporaryFolder folder;
  OutputFile file(folder / "t.gz", true);
  file.write(text);
  file.commit();
  return read_file(folder / "t.gz");
}

Read read_text(const std::string& text) {
  const testing::TemporaryFolder folder;
  write_file(folder / "t.json", text);
  return read_file_of(folder / "t.json");
}

// With one X event that has these members beside its phase.
Read read_event(const std::string& members) {
  return read_text("[{\"ph\":\"X\"," + members + "}]");
}

std::string refusal_of(const std::string& text) {
  return testing::input_error_of([&] { read_text(text); });
}

TEST(ChromeReader, SaysWhatAnEventSays) {
  const Event event =
      read_text(R"({"traceEvents":[{"ph":"X","name":"a\"\u00e4\n","cat":"c","ts":1.5,"dur":2,)"
                R"("pid":3,"tid":-4,"id":"0x1f","bp":"e","args":{"k":"v","n":1.50,"t":true,)"
                R"("f":false,"z":null}}]})")
          .only();
  EXPECT_EQ(event.phase, 'X');
  EXPECT_EQ(event.name, "a\"\xc3\xa4\n");
  EXPECT_EQ(event.category, "c");
  EXPECT_EQ(event.ts_ns, 1500);
  EXPECT_EQ(event.dur_ns, 2000);
  EXPECT_EQ(event.pid, "3");
  EXPECT_EQ(event.tid, "-4");
  EXPECT_EQ(event.id, "0x1f");
  EXPECT_TRUE(event.binds_enclosing);
  using Args = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(event.args,
            (Args{{"k", "v"}, {"n", "1.50"}, {"t", "true"}, {"f", "false"}, {"z", "null"}}));
  EXPECT_EQ(event.index, 0);
}

TEST(ChromeReader, TakesBothContainersAndAnyMembersAround) {
  const std::string list = R"([{"ph":"B","ts":1},{"ph":"E","ts":2}])";
  EXPECT_EQ(read_text(list).events.size(), 2U);
  EXPECT_EQ(read_text(" \n\t" + list + "\r\n").events.size(), 2U);
  const Read around =
      read_text(R"({"a":[1,{"traceEvents":[{"ph":"X"}]}],"traceEvents":)" + list +
                R"(,"displayTimeUnit":"ns","metadata":{"pipesim":{"x":"\u00e4"}},"n":-1.5e3})");
  EXPECT_EQ(around.events.size(), 2U);
  EXPECT_TRUE(around.warnings.empty()) << around.warnings.text();
  EXPECT_FALSE(around.trace.truncated);
  const auto& members = around.trace.members;
  EXPECT_EQ(members.size(), 4U);
  EXPECT_EQ(members.at("a"), R"([1,{"traceEvents":[{"ph":"X"}]}])");
  EXPECT_EQ(members.at("displayTimeUnit"), "\"ns\"");
  EXPECT_EQ(nlohmann::json::parse(members.at("metadata"))["pipesim"]["x"], "\xc3\xa4");
  EXPECT_EQ(members.at("n"), "-1.5e3");
  EXPECT_EQ(read_text("[]").events.size(), 0U);
  EXPECT_EQ(read_text(R"({"traceEvents":[]})").events.size(), 0U);
}

TEST(ChromeReader, TakesGzipWhateverItsName) {
  const Read read = read_text(gzip_of(R"([{"ph":"i","ts":7}])"));
  EXPECT_EQ(read.only().ts_ns, 7000);
  EXPECT_TRUE(read.warnings.empty()) << read.warnings.text();
}

TEST(ChromeReader, TimesAreExactNanoseconds) {
  const auto ns = [](const std::string& ts) { return read_event("\"dur\":0,\"ts\":" + ts); };
  const std::vector<std::pair<std::string, std::int64_t>> cases{
      {"0", 0},
      {"12", 12'000},
      {"12.345", 12'345},
      {"1700000000123456.789", 1'700'000'000'123'456'789},
      {"-1700000000123456.789", -1'700'000'000'123'456'789},
      {"\"1700000000123456.789\"", 1'700'000'000'123'456'789},
      {"\" 5 \"", 5000},
      {"1e3", 1'000'000},
      {"1.5E-2", 15},
      {"123456789e-6", 123'457},
      {"0.0004", 0},
      {"0.0005", 1},
      {"-0.0005", -1},
      {"0.00049999999999999999999999", 0},
      {"0.1234999999999999999999999999999", 123},
      {"2305843009213693.951", (std::int64_t{1} << 61) - 1},
      {"0.000000000000000000000000000000000000000000001e45", 1000}};
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    const Read read = ns(text);
    EXPECT_EQ(read.only().ts_ns, expected);
    EXPECT_TRUE(read.warnings.empty()) << read.warnings.text();
  }
  for (const char* far :
       {"2305843009213693.952", "9223372036854775807", "1e300", "-1e16",
        "99999999999999999999999999999999999999", "\"1e999999999999999999999\""}) {
    const Read read = ns(far);
    EXPECT_TRUE(read.events.empty()) << far;
    EXPECT_EQ(read.warned("out of range"), 1) << far;
  }
  const Read late = read_event(R"("ts":2305843009213693.951,"dur":0.001)");
  EXPECT_EQ(late.warned("out of range"), 1) << "its end counts, too";
}

TEST(ChromeReader, DecimalsOfAnyLength) {
  using Status = ScaledDecimal::Status;
  const auto status = [](std::string_view text) { return scale_decimal(text, 3).status; };
  for (const char* none :
       {"", " ", "-", ".", "e5", "1e", "1e+", "1x", "0x10", "NaN", "1 2", "--1"}) {
    EXPECT_EQ(status(none), Status::not_a_number) << none;
  }
  EXPECT_EQ(scale_decimal("9223372036854775807", 0).value, INT64_MAX);
  EXPECT_EQ(scale_decimal("9223372036854775808", 0).status, Status::out_of_range);
  EXPECT_EQ(scale_decimal("922337203685477580.75", 1).status, Status::out_of_range);
  EXPECT_EQ(scale_decimal("922337203685477580.74", 1).value, INT64_MAX);
  EXPECT_EQ(scale_decimal("-9223372036854775807", 0).value, -INT64_MAX);
  EXPECT_EQ(scale_decimal("0e999999999999", 3).value, 0);
  EXPECT_EQ(scale_decimal("7e-999999999999", 3).value, 0);
  EXPECT_EQ(scale_decimal("+.5", 0).value, 1);
  EXPECT_EQ(scale_decimal("5.", 0).value, 5);
  // Against another way to the same: whole numbers with a point put in.
  for (std::int64_t value = -2500; value <= 2500; ++value) {
    const std::int64_t size = std::abs(value);
    const std::string digits = std::to_string(10'000 + size).substr(1);
    const std::string text = (value < 0 ? "-" : "") + digits.substr(0, 1) + "." + digits.substr(1);
    EXPECT_EQ(scale_decimal(text, 3).value, value) << text;
    const std::int64_t rounded = (size + 5) / 10;
    EXPECT_EQ(scale_decimal(text, 2).value, value < 0 ? -rounded : rounded) << text;
  }
}

TEST(ChromeReader, XEventsHaveTimes) {
  const Read none = read_event(R"("name":"a")");
  EXPECT_TRUE(none.events.empty());
  EXPECT_EQ(none.warned("without ts, left out"), 1);
  for (const char* ts : {"NaN", "null", "\"soon\"", "[1]", "{\"a\":1}", "true"}) {
    EXPECT_TRUE(read_event(std::string("\"dur\":1,\"ts\":") + ts).events.empty()) << ts;
  }
  const Read unended = read_event(R"("ts":1)");
  EXPECT_EQ(unended.only().dur_ns, 0);
  EXPECT_EQ(unended.warned("without dur, taken as 0"), 1);
  const Read backwards = read_event(R"("ts":1,"dur":-3)");
  EXPECT_EQ(backwards.only().dur_ns, 0);
  EXPECT_EQ(backwards.warned("negative durations"), 1);
  const Read meta = read_text(R"([{"ph":"M","name":"process_name","args":{"name":"rank 3"}}])");
  EXPECT_EQ(meta.only().ts_ns, std::nullopt);
  EXPECT_EQ(meta.only().args[0].second, "rank 3");
  EXPECT_TRUE(meta.warnings.empty());
}

TEST(ChromeReader, EveryPhase) {
  for (const char phase : std::string("XBEbnestfCMiIRPNODSTpF(")) {
    EXPECT_EQ(
        read_text(std::string("[{\"ts\":1,\"dur\":1,\"ph\":\"") + phase + "\"}]").only().phase,
        phase);
  }
  for (const char* odd : {R"("ph":"")", R"("ph":"XX")", R"("ph":5)", R"("ph":null)", R"("ts":1)"}) {
    const Read read = read_text(std::string("[{\"ph\":\"i\"},{\"name\":\"a\",") + odd + "}]");
    EXPECT_EQ(read.events.size(), odd == std::string(R"("ph":5)") ? 2U : 1U) << odd;
  }
}

TEST(ChromeReader, ProcessesAndThreadsOfAnySort) {
  const auto pid = [](const std::string& text) {
    return read_text("[{\"ph\":\"i\",\"pid\":" + text + ",\"tid\":" + text + "}]").only();
  };
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"7", "7"},
           {"\"7\"", "7"},
           {"-1", "-1"},
           {"1.5", "1.5"},
           {"\"Spans\"", "Spans"},
           {"\"\"", ""},
           {"null", ""},
           {"18446744073709551616", "18446744073709551616"}}) {
    EXPECT_EQ(pid(text).pid, expected);
    EXPECT_EQ(pid(text).tid, expected);
  }
  EXPECT_EQ(read_text(R"([{"ph":"b","id2":{"local":"0x7"}}])").only().id, "0x7");
  EXPECT_EQ(read_text(R"([{"ph":"s","id":12}])").only().id, "12");
}

TEST(ChromeReader, ArgumentsAreFlat) {
  const Read read = read_text(
      R"([{"ph":"i","args":{"a":{"b":{"c":1},"d":"x"},"l":[1,{"m":2},[3]],"e":{},"f":4}}])");
  using Args = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(read.only().args, (Args{{"a.b.c", "1"}, {"a.d", "x"}, {"f", "4"}}));
  EXPECT_TRUE(read_text(R"([{"ph":"i","args":"none"}])").only().args.empty());
  EXPECT_TRUE(read_text(R"([{"ph":"i","args":[{"a":1}]}])").only().args.empty());
}

TEST(ChromeReader, NamesOfNestedArgumentsTakeNoMoreThanAMultiple) {
  const std::string outer(20'000, 'k');
  std::string inner;
  for (int i = 0; i < 1000; ++i) inner += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  const Read read = read_text("[{\"ph\":\"i\",\"args\":{\"" + outer + "\":{" + inner +
                              "},\"z\":1}},{\"ph\":\"i\",\"args\":{\"a\":{\"b\":1}}}]");
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_GT(read.events[0].args.size(), 5U);
  EXPECT_LT(read.events[0].args.size(), 20U);
  EXPECT_EQ(read.events[0].args[0].first, outer + ".0");
  EXPECT_EQ(read.events[1].args.size(), 1U);
  EXPECT_EQ(read.warned("names of nested arguments"), 1);
}

TEST(ChromeReader, NestingHasAnEnd) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{\"a\":";
    return text + "1" + std::string(static_cast<std::size_t>(depth), '}');
  };
  const auto read = [&](int depth) {
    return read_text("{\"m\":" + nested(depth) + ",\"traceEvents\":[{\"ph\":\"i\",\"args\":" +
                     nested(depth - 1) + "},{\"ph\":\"i\"}]}");
  };
  EXPECT_EQ(read(64).events.size(), 2U);
  EXPECT_TRUE(read(64).warnings.empty());
  EXPECT_EQ(read(65).events.size(), 1U);
  EXPECT_EQ(read(65).warned("deeper"), 2);
  EXPECT_TRUE(read(65).trace.members.empty());
  EXPECT_EQ(read(100'000).events.size(), 1U) << "no stack overflow";
}

TEST(ChromeReader, OfDuplicateKeysTheLastCounts) {
  const Read read =
      read_text(R"({"m":1,"m":2,"traceEvents":[{"ph":"B","ph":"i","ts":1,"ts":2,"args":{"old":1},)"
                R"("args":{"a":1,"a":2}}]})");
  EXPECT_EQ(read.only().phase, 'i');
  EXPECT_EQ(read.only().ts_ns, 2000);
  EXPECT_EQ(read.trace.members.at("m"), "2");
  ChromeEvent event;
  const std::vector<TraceArgument> args{{"a", "1"}, {"b", "3"}, {"a", "2"}};
  event.args = args;
  EXPECT_EQ(event.argument("a"), "2");
  EXPECT_EQ(event.argument("c"), "");
  EXPECT_EQ(read.only().args.size(), 2U);
}

TEST(ChromeReader, CommasAndSentinels) {
  const Read read =
      read_text("[,{\"ph\":\"i\",\"args\":{\"a\":1,},},\n,{\"ph\":\"i\"} {\"ph\":\"i\"},{},]");
  EXPECT_EQ(read.events.size(), 3U);
  EXPECT_EQ(read.events[2].index, 2);
  EXPECT_TRUE(read.warnings.empty()) << read.warnings.text();
  EXPECT_EQ(read_text(R"({"traceEvents":[{"ph":"i"},],"a":[1,],})").trace.members.at("a"), "[1]");
}

TEST(ChromeReader, ControlCharactersAndBytesThatAreNoUtf8) {
  const Read read = read_text(std::string("\xef\xbb\xbf[{\"ph\":\"i\",\"name\":\"a\nb\tc\x01") +
                              '\0' + "d\",\"cat\":\"\xff\xc3\"}]");
  EXPECT_EQ(read.only().name, "a b c  d");
  EXPECT_EQ(read.only().category, "\xff\xc3");
  const Read member =
      read_text("{\"traceEvents\":[],\"a\":\"\xff\xc3(\xc3\xa4\xe2\x82\",\"b\":\"\n\"}");
  EXPECT_EQ(member.trace.members.at("a"),
            "\"\xef\xbf\xbd\xef\xbf\xbd(\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(member.trace.members.at("b"), "\" \"");
}

TEST(ChromeReader, NumbersThatAreNone) {
  const Read read = read_text(
      R"({"m":[NaN,-Infinity,Infinity,nan,-inf,1],"traceEvents":[{"ph":"i","args":{"a":NaN,)"
      R"("b":Infinity,"c":-Infinity,"d":nan,"e":inf,"f":-nan,"g":"nan inf","nan":1,"h":null}}]})");
  const std::vector<std::string> expected{"NaN",  "Infinity", "-Infinity", "NaN", "Inf",
                                          "-NaN", "nan inf",  "1",         "null"};
  ASSERT_EQ(read.only().args.size(), expected.size()) << read.warnings.text();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(read.only().args[i].second, expected[i]);
  }
  EXPECT_EQ(read.only().args[7].first, "nan");
  EXPECT_EQ(read.trace.members.at("m"), "[null,null,null,null,null,1]");
  const Read bare = read_text(R"({"a":nan,"b":-Infinity,"traceEvents":[]})");
  EXPECT_EQ(bare.trace.members.at("a"), "null");
  EXPECT_EQ(bare.trace.members.at("b"), "null");
}

TEST(ChromeReader, WhatIsNoEventIsLeftOutAndCounted) {
  const Read read = read_text(
      R"([{"ph":"i","ts":1},5,"a",null,[{"ph":"i"}],{"ph":tru},{"ph":"i" "ts":1},{"ph":"i","ts":2}])");
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_EQ(read.events[1].index, 7);
  EXPECT_EQ(read.warned("not events"), 4);
  EXPECT_EQ(read.warned("not JSON"), 2);
  EXPECT_NE(read.warnings.text().find("event 5: events that are not JSON, left out (2 in all)"),
            std::string::npos)
      << read.warnings.text();
  EXPECT_EQ(read_text(R"([{"ph":"i"}] more)").warned("after the end"), 1);
  EXPECT_EQ(read_text(R"({"a":tru,"traceEvents":[]})").warned("member 'a' is not JSON"), 1);
}

// Cut at every byte, an event is there or it is not.
TEST(ChromeReader, CutOffAnywhere) {
  const std::string text =
      R"({"displayTimeUnit":"ms","metadata":{"a":[1,2]},"traceEvents":[{"ph":"X","name":"a\"\\\n",)"
      R"("ts":1.250,"dur":2,"args":{"b":{"c":NaN}}},{},{"ph":"i","ts":-3,"name":"\u00e4}]"},)"
      R"({"ph":"C","ts":nan,"args":{"x":1e3}}],"after":{"k":"v"}})";
  const std::vector<Event> all = read_text(text).events;
  ASSERT_EQ(all.size(), 3U);
  const std::size_t start = text.find("[{\"ph\"") + 1;
  const std::size_t list_end = text.find("],\"after\"") + 1;
  for (std::size_t size = 0; size < text.size(); ++size) {
    SCOPED_TRACE(text.substr(0, size));
    const std::string cut = text.substr(0, size);
    if (size < start) {
      EXPECT_NE(refusal_of(cut), testing::no_error);
      continue;
    }
    const Read read = read_text(cut);
    EXPECT_TRUE(read.trace.truncated);
    EXPECT_EQ(read.warned("ends in the middle"), 1) << read.warnings.text();
    ASSERT_LE(read.events.size(), all.size());
    EXPECT_TRUE(std::equal(read.events.begin(), read.events.end(), all.begin()));
    if (size >= list_end) {
      EXPECT_EQ(read.events.size(), all.size());
    }
  }
  const std::string packed = gzip_of(text);
  std::size_t most = 0;
  for (std::size_t size = 0; size < packed.size(); ++size) {
    SCOPED_TRACE(size);
    const testing::TemporaryFolder folder;
    write_file(folder / "t.json.gz", packed.substr(0, size));
    const std::string complaint = testing::input_error_of([&] {
      const Read read = read_file_of(folder / "t.json.gz");
      EXPECT_EQ(read.warned("break off"), 1) << read.warnings.text();
      EXPECT_TRUE(std::equal(read.events.begin(), read.events.end(), all.begin()));
      EXPECT_GE(read.events.size(), most);
      most = read.events.size();
    });
    if (complaint != testing::no_error) {
      EXPECT_EQ(most, 0U) << complaint;
    }
  }
  EXPECT_EQ(most, all.size());
}

// Wherever a byte of the compressed data is wrong, what was unpacked before counts.
TEST(ChromeReader, DamagedGzip) {
  std::string text = "[";
  for (int i = 0; i < 20'000; ++i) {
    text += R"({"ph":"i","ts":)" + std::to_string(i * 7919 % 10'007) + "},";
  }
  const std::vector<Event> all = read_text(text + "{}]").events;
  std::string packed = gzip_of(text + "{}]");
  for (std::size_t at = 4'000; at < packed.size(); at += 4'000) {
    std::string wrong = packed;
    wrong[at] = static_cast<char>(~wrong[at]);
    const Read read = read_text(wrong);
    EXPECT_FALSE(read.warnings.empty()) << at;
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(read.events, all).in1 - read.events.begin());
    EXPECT_GE(same + 2'000, at * all.size() / packed.size()) << at;
  }
  // What the sum at the end contradicts is whole all the same.
  for (const std::size_t behind : {1U, 5U}) {
    std::string wrong = packed;
    wrong[wrong.size() - behind] = static_cast<char>(~wrong[wrong.size() - behind]);
    const Read read = read_text(wrong);
    EXPECT_EQ(read.events.size(), all.size());
    EXPECT_EQ(read.warned("break off or are damaged"), 1) << read.warnings.text();
  }
  constexpr std::size_t header = 10;
  EXPECT_NE(refusal_of(packed.substr(0, header)).find("damaged from the start"), std::string::npos);
}

// gzip files may have several members, and be followed by anything.
TEST(ChromeReader, GzipInSeveralMembers) {
  const std::string packed =
      gzip_of(R"([{"ph":"i","ts":1},)") + gzip_of("") + gzip_of(R"({"ph":"i","ts":2}])");
  for (const std::string behind : {"", "\x1f", "more", "\n"}) {
    const Read read = read_text(packed + behind);
    EXPECT_EQ(read.events.size(), 2U);
    EXPECT_TRUE(read.warnings.empty()) << read.warnings.text();
  }
}

// Python writes half a surrogate pair for a byte of a name that it could not decode.
TEST(ChromeReader, HalfASurrogatePair) {
  const std::string odd = "\xef\xbf\xbd";
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"(\ud800)", odd},
      {R"(\uDC80)", odd},
      {R"(a\ud800b)", "a" + odd + "b"},
      {R"(\ud800\ud800)", odd + odd},
      {R"(\ud800\ud83d\ude00)", odd + "\xf0\x9f\x98\x80"},
      {R"(\ud83d\ude00)", "\xf0\x9f\x98\x80"},
      {R"(\ud83d\n)", odd + "\n"},
      {R"(\\ud800)", "\\ud800"}};
  for (const auto& [escaped, expected] : cases) {
    const Read read = read_text(R"({"traceEvents":[{"ph":"i","ts":1,"name":")" + escaped +
                                R"("}],"metadata":")" + escaped + "\"}");
    EXPECT_EQ(read.only().name, expected) << escaped;
    EXPECT_EQ(nlohmann::json::parse(read.trace.members.at("metadata")), expected) << escaped;
    EXPECT_EQ(read_text(R"([{"ph":"i","name":")" + escaped + "\"}").only().name, expected);
  }
}

TEST(ChromeReader, AListNeedNotEnd) {
  const Read read = read_text(R"([{"ph":"i","ts":1},)");
  EXPECT_EQ(read.only().ts_ns, 1000);
  EXPECT_TRUE(read.trace.truncated);
  const Read damaged = read_text(R"([{"ph":"i","ts":1}}, {"ph":"i","ts":2}])");
  EXPECT_EQ(damaged.events.size(), 1U);
  EXPECT_EQ(damaged.warned("damaged"), 1) << damaged.warnings.text();
}

// Events and members longer than what is read at once.
TEST(ChromeReader, ValuesOfAnyLength) {
  std::string text = "{\"long\":\"" + std::string(700'000, 'x') + "\",\"traceEvents\":[";
  for (int i = 0; i < 200; ++i) {
    if (i > 0) text += ',';
    text += R"({"ph":"X","dur":1,"ts":)" + std::to_string(i) + R"(,"name":")" +
            std::string(static_cast<std::size_t>(i) * 3'001, static_cast<char>('a' + i % 26)) +
            R"(\\"})";
  }
  const Read read = read_text(text + "]}");
  EXPECT_EQ(read.trace.members.at("long").size(), 700'002U);
  ASSERT_EQ(read.events.size(), 200U);
  for (int i = 0; i < 200; ++i) {
    const Event& event = read.events[static_cast<std::size_t>(i)];
    EXPECT_EQ(event.ts_ns, i * 1000);
    EXPECT_EQ(event.name.size(), static_cast<std::size_t>(i) * 3'001 + 1);
    EXPECT_EQ(event.name.back(), '\\');
  }
  EXPECT_TRUE(read.warnings.empty());
}

TEST(ChromeReader, TheHeadIsWhatComesBeforeTheEvents) {
  const testing::TemporaryFolder folder;
  write_file(folder / "t.json", R"({"a":1,"traceEvents":[{"ph":"i"}],"b":2})");
  const ChromeTrace head = read_chrome_head(folder / "t.json");
  EXPECT_EQ(head.members.size(), 1U);
  EXPECT_EQ(head.members.at("a"), "1");
  EXPECT_EQ(head.events, 0);
  write_file(folder / "t.json", R"([{"ph":"i"}])");
  EXPECT_TRUE(read_chrome_head(folder / "t.json").members.empty());
}

TEST(ChromeReader, SaysWhatIsNoTrace) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "the file is empty"},
      {"hello", "it starts with 'hello'"},
      {"0F0,0B0\n", "a schedule, in CSV"},
      {",\"(0F1;1B0)OVERLAP_F_B\",0F0\n", "a schedule, in CSV"},
      {"<html>", "HTML or XML"},
      {std::string("\x28\xb5\x2f\xfd\x04\x00", 6), "zstd -d"},
      {std::string("PK\x03\x04\x00", 5), "a zip archive"},
      {std::string("SQLite format 3\0", 16), "an SQLite database"},
      {std::string("\n\x12\x08\x00\x01", 5), "Perfetto"},
      {"{}", "without traceEvents"},
      {R"({"one":1,"two":2})", "it has 'one', 'two'"},
      {R"({"traceEvents":{"a":1}})", "traceEvents is not a list"},
      {R"({"traceEvents":null})", "traceEvents is not a list"},
      {R"({"format":"pipesim-result","version":1})", "run it again with --trace"},
      {R"({"format":"pipeexec-result"})", "run it again with --trace"},
      {R"({"format":"pipesim-costs","stages":[]})", "--costs"},
      {R"({"format":"pipesim-model"})", "--model"},
      {R"({"schema":"1.1.0-chakra.0.0.4","nodes":[]})", "Chakra"},
      {"[1,2,3]", "of 3 elements in its list none is an event"},
      {R"([{"a":1}])", "of 1 element in its list none is an event"},
      {"5", "it starts with '5'"},
      {"\"text\"", "it starts with '\"text\"'"},
      {R"({"a":1)", "the file ends before traceEvents"},
      {R"({"a":1 "b")", "before traceEvents"},
      {"{nothing}", "is no JSON from here on"}};
  for (const auto& [text, expected] : cases) {
    const std::string refusal = refusal_of(text);
    EXPECT_NE(refusal.find(expected), std::string::npos) << text << "\n" << refusal;
    EXPECT_NE(refusal.find("t.json"), std::string::npos) << refusal;
  }
  EXPECT_NE(refusal_of(gzip_of("")).find("the file is empty"), std::string::npos);
  EXPECT_NE(testing::input_error_of([] { read_file_of("/no/such/file"); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(testing::input_error_of([] { read_file_of("/"); }).find("directory"),
            std::string::npos);
}

TEST(ChromeReader, TracesOfOthers) {
  const auto read = [](const std::string& name) {
    return read_file_of(testing::source_file("tests/data/traces/" + name));
  };
  const auto count = [](const Read& trace, char phase) {
    return std::ranges::count(trace.events, phase, &Event::phase);
  };
  const Read amd = read("hta_amd_mi250.json.gz");
  EXPECT_EQ(amd.events.size(), 220U);
  EXPECT_EQ(count(amd, 'X'), 113);
  EXPECT_EQ(amd.trace.members.at("baseTimeNanoseconds"), "1735632360000000000");
  EXPECT_EQ(amd.events.back().name, "Record Window End");
  EXPECT_EQ(amd.events.back().ts_ns, 4'203'669'613'175'703);
  EXPECT_TRUE(amd.warnings.empty()) << amd.warnings.text();
  const Read sync = read("hta_event_sync.json.gz");
  EXPECT_EQ(sync.events.size(), 149U);
  EXPECT_EQ(count(sync, 'X'), 57);
  EXPECT_EQ(sync.trace.members.at("distributedInfo"), R"({"rank":0})");
  const Read thread = read("hta_backward_thread.json");
  EXPECT_EQ(thread.events.size(), 7U);
  EXPECT_EQ(count(thread, 'X'), 7);
  EXPECT_NE(testing::input_error_of([&] { read("chakra_graph.json"); }).find("Chakra"),
            std::string::npos);
}

}  // namespace
}  // namespace pipesim
