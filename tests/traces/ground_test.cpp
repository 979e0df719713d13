// The ground floor: actions, quantities, files, JSON with positions.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "tests/errors.h"
#include "tests/files.h"
#include "traces/action.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/input_action.h"

namespace pipesim {
namespace {

using testing::error_of;
using testing::no_error;

TEST(Action, TextRoundTripsForEveryKind) {
  for (int k = 0; k < static_cast<int>(Kind::IDLE); ++k) {
    const auto kind = static_cast<Kind>(k);
    const Action action =
        takes_microbatch(kind) ? make_action(12, kind, 345) : make_action(12, kind);
    EXPECT_EQ(parse_action(to_text(action)), action) << to_text(action);
  }
  EXPECT_EQ(to_text(make_action(2, Kind::F, 0)), "2F0");
  EXPECT_EQ(to_text(make_action(1, Kind::UNSHARD)), "1UNSHARD");
  for (const Kind kind : input_kinds) {
    const Action action = input_action(kind, 345);
    EXPECT_EQ(parse_input_action(to_text(action)), action) << to_text(action);
    EXPECT_FALSE(parse_action(to_text(action)));
  }
  EXPECT_EQ(to_text(input_action(Kind::DENSE_STEP, 3)), "OPTIMIZER3");
}

TEST(Action, RefusesWhatIsNotExactlyOne) {
  for (const char* text : {"", "F0", "0", "0F", "0F0 ", " 0F0", "0f0", "0F0x", "0F-1", "0Q1",
                           "1000000000F0", "0IDLE", "0UNSHARD1", "0SEND_F", "0F0,1F0"}) {
    EXPECT_EQ(parse_action(text), std::nullopt) << text;
  }
}

TEST(Action, PeersAreEachOthers) {
  EXPECT_EQ(peer_of(make_action(0, Kind::SEND_F, 1)), make_action(1, Kind::RECV_F, 1));
  EXPECT_EQ(peer_of(make_action(1, Kind::SEND_B, 1)), make_action(0, Kind::RECV_B, 1));
  for (const Kind kind : {Kind::SEND_F, Kind::RECV_F, Kind::SEND_B, Kind::RECV_B}) {
    const Action action = make_action(5, kind, 2);
    EXPECT_EQ(peer_of(peer_of(action)), action);
  }
}

// What is no Error of ours becomes one: out of memory, a size that no memory has, a fault.
TEST(Error, IsMadeOfWhateverWasThrown) {
  const auto error_made_by = [](const auto& work) {
    try {
      work();
    } catch (const std::exception& thrown) {
      return as_error(thrown);
    }
    return work_error("nothing");
  };
  const Error own = error_made_by([] { throw input_error("a.csv: is empty"); });
  EXPECT_EQ(own.what(), std::string("a.csv: is empty"));
  EXPECT_EQ(own.exit_status(), 2);
  for (const Error& memory : {error_made_by([] { throw std::bad_alloc(); }), error_made_by([] {
                                std::vector<std::int64_t>().reserve(SIZE_MAX / 8);
                              })}) {
    EXPECT_EQ(memory.what(), std::string(out_of_memory));
    EXPECT_EQ(memory.exit_status(), 2);
  }
  const Error fault = error_made_by([] { throw std::filesystem::filesystem_error("a/b", {}); });
  EXPECT_TRUE(std::string(fault.what()).starts_with("a fault of this program; please report it: "));
  EXPECT_EQ(fault.exit_status(), 1);
}

TEST(Text, ReadsQuantities) {
  EXPECT_EQ(parse_time_ns("1.5ms", "x"), 1'500'000);
  EXPECT_EQ(parse_time_ns("18.522ms", "x"), 18'522'000);
  EXPECT_EQ(parse_time_ns("601us", "x"), 601'000);
  EXPECT_EQ(parse_time_ns(" 2 s ", "x"), 2'000'000'000);
  EXPECT_EQ(parse_time_ns("0", "x"), 0);
  EXPECT_EQ(parse_time_ns("1e-3ms", "x"), 1'000);
  EXPECT_EQ(parse_bytes("80GiB", "x"), 80LL << 30);
  EXPECT_EQ(parse_bytes("1.5kB", "x"), 1500);
  EXPECT_EQ(parse_bytes_per_second("25GB/s", "x"), 25'000'000'000);
  EXPECT_EQ(parse_bytes_per_second("200Gbit/s", "x"), 25'000'000'000);
  EXPECT_EQ(parse_count("7", "x"), 7);
  EXPECT_EQ(parse_duration_ns("5min", "x"), 300'000'000'000);
  EXPECT_EQ(parse_duration_ns("3.1h", "x"), 11'160'000'000'000);
  EXPECT_EQ(parse_duration_ns("30 d", "x"), 2'592'000'000'000'000);
  EXPECT_EQ(parse_duration_ns("50ms", "x"), 50'000'000);
}

TEST(Text, RefusesBadQuantities) {
  const auto time = [](std::string_view text) {
    return error_of([&] { parse_time_ns(text, "--forward"); });
  };
  EXPECT_EQ(time(""), "--forward: nothing given; write a value such as 1.5ms");
  EXPECT_EQ(time("1"), "--forward: '1' has no unit; write one of ns, us, ms, s, such as 1.5ms");
  EXPECT_EQ(time("1sec"), "--forward: unknown unit 'sec' in '1sec'; known: ns, us, ms, s");
  EXPECT_EQ(time("-1ms"), "--forward: '-1ms' is negative; it must be 0 or more");
  EXPECT_EQ(time("nanms"), "--forward: 'nanms' is not a number");
  EXPECT_EQ(time("ms"), "--forward: 'ms' is not a number with a unit, such as 1.5ms");
  for (const char* text : {"infs", "1e300s", "1e400s", "99999999999s"}) {
    EXPECT_NE(time(text).find("too large"), std::string::npos) << text;
  }
  for (const char* text :
       {"0", "-3", "1.5", "", "x", "99999999999999999999", "1000000001", "4 4"}) {
    EXPECT_NE(error_of([&] { parse_count(text, "--stages"); }), no_error) << text;
  }
  EXPECT_NE(error_of([] { parse_bytes_per_second("0GB/s", "x"); }), no_error);
  const auto duration = [](std::string_view text) {
    return error_of([&] { parse_duration_ns(text, "--mtbf"); });
  };
  EXPECT_EQ(duration("3"),
            "--mtbf: '3' has no unit; write one of ns, us, ms, s, min, h, d, such as 5min");
  EXPECT_EQ(duration("-3h"), "--mtbf: '-3h' is negative; it must be 0 or more");
  EXPECT_NE(duration("20000d").find("too large"), std::string::npos);
}

TEST(Text, WritesForPeople) {
  EXPECT_EQ(format_time(33'000'000), "33.00 ms");
  EXPECT_EQ(format_time(13'443'060'000), "13.44 s");
  EXPECT_EQ(format_time(601'000), "601 us");
  EXPECT_EQ(format_time(0), "0 ms");
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(50'000'000), "50.0 ms");
  EXPECT_EQ(format_duration(59'999'000'000), "1.00 min");
  EXPECT_EQ(format_duration(300'000'000'000), "5.00 min");
  EXPECT_EQ(format_duration(9'999'000'000), "10.0 s");
  EXPECT_EQ(format_duration(11'124'000'000'000), "3.09 h");
  EXPECT_EQ(format_duration(86'400'000'000'000), "24.0 h");
  EXPECT_EQ(format_duration(2'592'000'000'000'000), "30.0 d");
  EXPECT_EQ(format_duration(max_duration_ns), "11,574 d");
  EXPECT_EQ(format_bytes(80LL << 30), "80.0 GiB");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(plural(1, "microbatch"), "1 microbatch");
  EXPECT_EQ(plural(8, "microbatch"), "8 microbatches");
  EXPECT_EQ(quote("a\n"), "'a\\x0a'");
  // What would act on a terminal, or turn the text around.
  EXPECT_EQ(printable("\xc2\x9b!\xe2\x80\xae\xe2\x81\xa6"),
            "\\xc2\\x9b!\\xe2\\x80\\xae\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("\xc2\xb5s \xe2\x80\x93 \xc3\xa9"), "\xc2\xb5s \xe2\x80\x93 \xc3\xa9");
}

TEST(Text, WritesWhatIsNoWholeNumberRounded) {
  EXPECT_EQ(format_rounded(0.4), "0");
  EXPECT_EQ(format_rounded(-8191.6), "-8,192");
  EXPECT_EQ(format_rounded(4.096e+21), "4.1e+21");
  EXPECT_EQ(format_rounded(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Text, SuggestsTheNearestNameFirst) {
  EXPECT_EQ(nearest_first("zbh1", {"gpipe", "zb-h2", "zb-h1"}),
            (std::vector<std::string>{"zb-h1", "zb-h2", "gpipe"}));
}

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "out.txt";
  {
    OutputFile file(path);
    file.write("half");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write_file(path, "old");
  {
    OutputFile file(path);
    file.write("new");
    EXPECT_EQ(read_file(path), "old");
    file.commit();
  }
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, KeepsLinksAndModes) {
  const testing::TemporaryFolder folder;
  write_file(folder / "real.txt", "old");
  ::chmod((folder / "real.txt").c_str(), 0646);
  std::filesystem::create_symlink(folder / "real.txt", folder / "link.txt");
  write_file(folder / "link.txt", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_file(folder / "real.txt"), "new");
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(folder / "real.txt").permissions()),
            0646U);
}

TEST(OutputFile, SaysWhyItCannotWrite) {
  const testing::TemporaryFolder folder;
  EXPECT_NE(error_of([&] { OutputFile(folder / "no/such/folder"); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { OutputFile(folder.path().string()); }).find("is a folder"),
            std::string::npos);
  EXPECT_NE(error_of([] { write_file("/dev/full", "x"); }).find("No space left"),
            std::string::npos);
}

TEST(OutputFile, CompressesWhereAsked) {
  const testing::TemporaryFolder folder;
  const std::string content(100'000, 'x');
  OutputFile compressed(folder / "x.gz", true);
  compressed.write(content);
  compressed.commit();
  EXPECT_LT(std::filesystem::file_size(folder / "x.gz"), 1000U);
  gzFile file = gzopen((folder / "x.gz").c_str(), "rb");
  std::string back(content.size() + 1, ' ');
  EXPECT_EQ(gzread(file, back.data(), static_cast<unsigned>(back.size())),
            static_cast<int>(content.size()));
  gzclose(file);
}

TEST(Json, KnowsThePlaceOfEveryValue) {
  const JsonValue root =
      parse_json("{\n  \"a\": [1, -2.5, \"x\\\"y\"],\n  \"b\": {\"c\": null, \"d\": true}\n}", "f");
  const auto& members = *root.get_if<JsonValue::Object>();
  const auto& a = *members[0].second.get_if<JsonValue::Array>();
  const auto at = [](const JsonValue& v) { return fmt::format("{}:{}", v.line, v.column); };
  EXPECT_EQ(at(root), "1:1");
  EXPECT_EQ(at(members[0].second), "2:8");
  EXPECT_EQ(at(a[0]), "2:9");
  EXPECT_EQ(at(a[1]), "2:12");
  EXPECT_EQ(at(a[2]), "2:18");
  EXPECT_EQ(*a[2].get_if<std::string>(), "x\"y");
  const auto& b = *members[1].second.get_if<JsonValue::Object>();
  EXPECT_EQ(at(b[0].second), "3:14");
  EXPECT_EQ(at(b[1].second), "3:25");
}

TEST(Json, RefusesWhatIsNotJson) {
  const auto parse = [](const std::string& text) {
    return error_of([&] { parse_json(text, "f.json"); });
  };
  EXPECT_EQ(parse("{\"a\":1,\n \"a\":2}").substr(0, 12), "f.json:2:6: ");
  EXPECT_NE(parse("{\"a\":1,\n \"a\":2}").find("'a' is given twice"), std::string::npos);
  EXPECT_EQ(parse("{\"a\":\n  nope}").substr(0, 9), "f.json:2:");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1,]"), std::string("[NaN]"),
        std::string("[1] 2"), std::string("[1e999]"), std::string("[1]\0", 4),
        std::string("[\"\xff\"]"), std::string("// x\n1"), std::string("['a']"),
        std::string(100, '[') + std::string(100, ']'), std::string(1'000'000, '[')}) {
    EXPECT_NE(parse(text), no_error) << quote(text);
  }
}

// As nlohmann-json writes the same values.
TEST(JsonText, IsThatOfTheLibrary) {
  const std::string broken = "caf\xc3\xa9 \xff \"quoted\" \\ \n \x01";
  const std::vector<double> numbers{0, 1, 0.1, 1e-5, 1e20, -2.5e300, 1.0 / 3};
  pipesim::Json ours{{"text", broken}, {"none", nullptr}, {"yes", true}, {"list", numbers}};
  ours["least"] = INT64_MIN;
  ours["most"] = UINT64_MAX;
  ours["absent"] = std::optional<int>();
  ours["there"] = std::optional<int>(7);
  ours["nested"]["empty"] = pipesim::Json::array();
  ours["nested"]["object"] = pipesim::Json::object();
  ours["rows"].push_back({1, "two", 3.0F});
  ours["rows"].push_back({"two", "texts"});
  pipesim::Json row{{"text", broken + "{[,:"}, {"list", numbers}, {"none", nullptr}};
  row["nested"] = {{"empty", pipesim::Json::array()}, {"object", pipesim::Json::object()}};
  row["rows"].append({1, "two", 3.0F});
  for (const pipesim::Json& item : {row, pipesim::Json(3), pipesim::Json("a\\"), {}}) {
    ours["rows"].append(item);
  }
  ours["yes"] = false;
  nlohmann::ordered_json theirs{{"text", broken}, {"none", nullptr}, {"yes", true}};
  theirs["list"] = numbers;
  theirs["least"] = INT64_MIN;
  theirs["most"] = UINT64_MAX;
  theirs["absent"] = nullptr;
  theirs["there"] = 7;
  theirs["nested"]["empty"] = nlohmann::ordered_json::array();
  theirs["nested"]["object"] = nlohmann::ordered_json::object();
  theirs["rows"].push_back({1, "two", 3.0F});
  theirs["rows"].push_back({"two", "texts"});
  nlohmann::ordered_json their_row{{"text", broken + "{[,:"}, {"list", numbers}, {"none", nullptr}};
  their_row["nested"] = {{"empty", nlohmann::ordered_json::array()},
                         {"object", nlohmann::ordered_json::object()}};
  their_row["rows"].push_back({1, "two", 3.0F});
  for (const auto& item : {their_row, nlohmann::ordered_json(3), nlohmann::ordered_json("a\\"),
                           nlohmann::ordered_json()}) {
    theirs["rows"].push_back(item);
  }
  theirs["yes"] = false;
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  EXPECT_EQ(ours.dump(), theirs.dump(-1, ' ', false, replace));
  EXPECT_EQ(ours.dump(2), theirs.dump(2, ' ', false, replace));
}

TEST(JsonText, OfAnyNumberAndTextIsAsShortAndReadsBack) {
  std::mt19937_64 random(57);
  const auto replace = nlohmann::json::error_handler_t::replace;
  for (int i = 0; i < 20'000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    const std::string text = pipesim::Json(number).dump();
    EXPECT_EQ(nlohmann::json::parse(text).get<double>(), number);
    EXPECT_LE(text.size(), nlohmann::json(number).dump().size()) << text;
  }
  for (const double number : {1e15, 1e16, 123456789012345680.0, 0.0001, 0.00001, -0.0}) {
    EXPECT_EQ(pipesim::Json(number).dump(), nlohmann::json(number).dump());
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto bytes = random() % 6; bytes > 0; --bytes) text += static_cast<char>(random());
    EXPECT_EQ(nlohmann::json::parse(pipesim::Json(text).dump()).get<std::string>(),
              valid_utf8(text));
    if (valid_utf8(text) == text) {
      EXPECT_EQ(pipesim::Json(text).dump(), nlohmann::json(text).dump(-1, ' ', false, replace));
    }
  }
}

TEST(JsonText, WhatIsNoNumberIsNull) {
  EXPECT_EQ(pipesim::Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(pipesim::Json().dump(), "null");
  const pipesim::Json verbatim{{"as", pipesim::Json::verbatim("[1, 2]")}};
  EXPECT_EQ(verbatim.dump(), R"({"as":[1, 2]})");
}

}  // namespace
}  // namespace pipesim
