// Layouts written as Megatron-LM reads them.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <regex>

#include "sim/cost/layout.h"
#include "tests/errors.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Writes every match of (what)*N out N times.
std::string unrolled(const std::string& text, const std::string& what) {
  const std::regex pattern(what + R"(\*(\d+))");
  std::string out;
  auto rest = text.begin();
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    out.append(rest, text.begin() + match->position());
    for (int i = std::stoi((*match)[2]); i > 0; --i) out += (*match)[1];
    rest = text.begin() + match->position() + match->length();
  }
  return out.append(rest, text.end());
}

// The letters of each stage by Megatron's own rules (pipeline_parallel_layer_layout.py):
// commas go, groups are written out once, then letters, and bars part stages.
std::vector<std::string> megatron_stages(std::string text) {
  std::erase(text, ',');
  text = unrolled(unrolled(text, R"(\(([^)]+)\))"), "(.)");
  std::vector<std::string> stages;
  for (const std::string_view stage : split(text, '|')) stages.emplace_back(stage);
  return stages;
}

TEST(MegatronLayout, IsShortAndReadable) {
  std::vector<int> deepseek{4};
  deepseek.insert(deepseek.end(), 29, 2);
  deepseek.push_back(1);
  EXPECT_EQ(to_megatron_layout(deepseek), "Et*3|(tt|)*29,L");
  EXPECT_EQ(to_megatron_layout({4, 3, 3, 2, 3}), "Et*3|t*3|t*3|tt|ttL");
  EXPECT_EQ(to_megatron_layout({1, 1, 2, 2, 2, 6, 1}), "E|t|(tt|)*3,t*6|L");
  EXPECT_EQ(to_megatron_layout({5, 5}), "Et*4|t*4L");
  EXPECT_EQ(to_megatron_layout({1, 1}), "E|L");
  EXPECT_EQ(to_megatron_layout({9}), "Et*7L");
  EXPECT_EQ(to_megatron_layout({2}), "EL");
}

TEST(MegatronLayout, IsReadAsWhatWasWritten) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2'000; ++round) {
    // Few sizes, so that neighbours are often alike.
    const auto sizes = 1 + random() % 12;
    std::vector<int> layout(1 + random() % 40);
    std::ranges::generate(layout, [&] { return static_cast<int>(1 + random() % sizes); });
    if (layout == std::vector{1}) layout = {2};
    const std::string text = to_megatron_layout(layout);
    ASSERT_EQ(parse_layout(text).layers, layout) << text;

    const std::vector<std::string> stages = megatron_stages(text);
    ASSERT_EQ(stages.size(), layout.size()) << text;
    std::string letters;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      ASSERT_EQ(stages[s].size(), static_cast<std::size_t>(layout[s])) << text;
      letters += stages[s];
    }
    const auto layers = static_cast<std::size_t>(std::reduce(layout.begin(), layout.end()));
    ASSERT_EQ(letters, "E" + std::string(layers - 2, 't') + "L") << text;
  }
}

TEST(MegatronLayout, NeedsALayerOnEveryStage) {
  for (const std::vector<int>& layout :
       {std::vector<int>{}, {1}, {0}, {2, 0, 2}, {3, 3, 0}, {0, 3}, {4, -1, 4}}) {
    EXPECT_NE(testing::input_error_of([&] {
                to_megatron_layout(layout);
              }).find("are no Megatron layout; give every stage a layer"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace pipesim
