// Values within JSON text, compared with what nlohmann-json makes of it.
#include "traces/base/json_slice.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace pipesim {
namespace {

using nlohmann::ordered_json;

const std::vector<std::string> texts{"",         "a",   "ranks",      "\"",          "\\",
                                     "\\\"",     "a,b", "[]",         "{\"a\":1}",   "null",
                                     "\n\t\x01", "7",   "ends in \\", "\u00fc\u20ac"};

ordered_json random_value(std::mt19937& random, int depth) {
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto text = [&] { return texts[below(texts.size())]; };
  switch (below(depth > 0 ? 8 : 6)) {
    case 0: return nullptr;
    case 1: return below(2) == 0;
    case 2: return static_cast<std::int64_t>(random()) - (std::int64_t{1} << 31);
    case 3: return (static_cast<double>(random()) + 0.5) * 1e-3;
    case 4:
    case 5: return text();
    case 6: {
      ordered_json list = ordered_json::array();
      for (std::size_t n = below(5); n > 0; --n) list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      ordered_json object = ordered_json::object();
      for (std::size_t n = below(5); n > 0; --n) object[text()] = random_value(random, depth - 1);
      return object;
    }
  }
}

int compare(JsonSlice slice, const ordered_json& value) {
  EXPECT_EQ(slice.text(), value.dump());
  EXPECT_EQ(slice.is_null(), value.is_null());
  EXPECT_EQ(slice.is_object(), value.is_object());
  EXPECT_EQ(slice.is_list(), value.is_array());
  EXPECT_EQ(slice.string().has_value(), value.is_string());
  if (value.is_string()) {
    EXPECT_EQ(slice.string(), value.get<std::string>());
  }
  EXPECT_EQ(slice.whole().has_value(), value.is_number_integer());
  if (value.is_number_integer()) {
    EXPECT_EQ(slice.whole(), value.get<std::int64_t>());
  }
  int compared = 1;
  if (value.is_array()) {
    std::size_t i = 0;
    slice.each([&](JsonSlice item) { compared += compare(item, value.at(i++)); });
    EXPECT_EQ(i, value.size());
    EXPECT_EQ(slice.front().has_value(), !value.empty());
    if (slice.front()) {
      EXPECT_EQ(slice.front()->text(), value[0].dump());
    }
  }
  for (const std::string& key : texts) {
    const auto found = slice.find(key);
    EXPECT_EQ(found.has_value(), value.is_object() && value.contains(key)) << key;
    if (found) compared += compare(*found, value.at(key));
  }
  return compared;
}

TEST(JsonSlice, FindsWhatALibraryFinds) {
  std::mt19937 random(7);
  int compared = 0;
  for (int i = 0; i < 2000; ++i) {
    const ordered_json value = random_value(random, 5);
    const std::string text = value.dump();
    compared += compare(JsonSlice(text), value);
    ASSERT_FALSE(HasFailure()) << text;
  }
  EXPECT_GT(compared, 3000);
}

TEST(JsonSlice, OfSeveralMembersWithOneNameTheLastCounts) {
  EXPECT_EQ(JsonSlice(R"({"a":1,"b":{"a":2},"a":3,"c":4})").find("a")->whole(), 3);
}

TEST(JsonSlice, NumbersThatDoNotFitAreNone) {
  for (const char* text : {"9223372036854775808", "1e3", "1.0", "true", "\"1\"", "[1]", "-"}) {
    EXPECT_EQ(JsonSlice(text).whole(), std::nullopt) << text;
  }
  EXPECT_EQ(JsonSlice("-9223372036854775808").whole(), INT64_MIN);
}

}  // namespace
}  // namespace pipesim
