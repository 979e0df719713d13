// `pipesim predict --list-ranks`, as a user gives it.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using namespace testing;

const std::string listing =
    "predict --model mixtral-8x7b --cluster dgx-h100 --sequence-length 4096 --stages 2 "
    "--list-ranks ";

TEST(RankList, SaysWhereRanksAre) {
  EXPECT_EQ(output_of(listing + "--data-parallel 4 --expert-parallel 4", {"COLUMNS=80"}),
            R"(8 ranks on 1 node of dgx-h100: 2 pipeline x 4 data x 1 context x 1 tensor
experts: 2 pipeline x 1 replica x 4 blocks x 1 part

rank  node device  pipeline data context tensor  experts part replica
0        0      0         0    0       0      0      0-1    0       0
1        0      1         0    1       0      0      2-3    0       0
2        0      2         0    2       0      0      4-5    0       0
3        0      3         0    3       0      0      6-7    0       0
4        0      4         1    0       0      0      0-1    0       0
5        0      5         1    1       0      0      2-3    0       0
6        0      6         1    2       0      0      4-5    0       0
7        0      7         1    3       0      0      6-7    0       0

tensor               8 of 1
context              8 of 1
data                 2 of 4:  0-3 | 4-7
gradients            2 of 4:  0-3 | 4-7
pipeline             4 of 2:  0, 4 | 1, 5 | 2, 6 | 3, 7
experts              2 of 4:  0-3 | 4-7
parts of experts     8 of 1
replicas of experts  8 of 1
)");
}

TEST(RankList, FitsThePage) {
  for (const std::string size : {"--data-parallel 4", "--data-parallel 512"}) {
    const std::string line =
        listing + size + " --tensor-parallel 2 --context-parallel 2 --sequence-parallel";
    for (const std::size_t width : {80U, 200U}) {
      std::istringstream lines(output_of(line, {"COLUMNS=" + std::to_string(width)}));
      std::size_t widest = 0;
      for (std::string one; std::getline(lines, one);) widest = std::max(widest, one.size());
      EXPECT_LE(widest, width) << line;
      EXPECT_GT(widest, width / 2) << line;
    }
  }
  const std::string many = output_of(listing + "--data-parallel 64", {"COLUMNS=80"});
  EXPECT_NE(many.find("\n127     15      7         1   63       0      0      0-7    0      63\n"),
            std::string::npos)
      << many;
  EXPECT_NE(many.find("58 more, all with --json\n"), std::string::npos) << many;
}

// A rank's coordinates are its places in its groups.
TEST(RankList, AsJsonHasGroupsByName) {
  const Json all =
      json_of(listing +
              "--tensor-parallel 2 --sequence-parallel --context-parallel 2 --data-parallel 4 "
              "--expert-parallel 4 --expert-tensor-parallel 2");
  ASSERT_EQ(all["ranks"].size(), 32U);
  EXPECT_EQ(all["ranks"][27], Json::parse(R"({"rank": 27, "node": 3, "device": 3, "pipeline": 1,
      "data": 2, "context": 1, "tensor": 1, "expert_block": 1, "experts": [2, 3],
      "expert_part": 1, "expert_replica": 1})"));
  const Json& groups = all["groups"];
  EXPECT_EQ(groups.size(), 8U);
  EXPECT_EQ(groups["gradients"][1], Json({1, 3, 5, 7, 9, 11, 13, 15}));
  for (const auto& [coordinate, group] : {std::pair("pipeline", "pipeline"),
                                          {"data", "data"},
                                          {"context", "context"},
                                          {"tensor", "tensor"},
                                          {"expert_block", "experts"},
                                          {"expert_part", "expert_parts"},
                                          {"expert_replica", "expert_replicas"}}) {
    for (const Json& one : groups[group]) {
      for (std::size_t place = 0; place < one.size(); ++place) {
        EXPECT_EQ(all["ranks"][one[place].get<std::size_t>()][coordinate], place) << group;
      }
    }
  }
  const Json dense = json_of(
      "predict --model gpt2-small --cluster dgx-a100 --schedule interleaved --stages 2 "
      "--virtual-stages 3 --microbatches 4 --devices 8 --list-ranks");
  EXPECT_EQ(dense["ranks"].size(), 8U);
  EXPECT_EQ(dense["ranks"][5]["pipeline"], 1);
  EXPECT_EQ(dense["groups"].size(), 5U);
  EXPECT_FALSE(dense["ranks"][0].contains("experts"));
}

TEST(RankList, RefusesWhatItCannotList) {
  const std::string shape = "predict --stages 2 --list-ranks";
  expect_refused(shape, 2, "give --model and --cluster");
  expect_refused(shape + " --model gpt2-small", 2, "give --model and --cluster");
  const std::string model = " --model gpt2-small --cluster dgx-a100";
  expect_refused("predict --list-ranks" + model, 2, "give --stages");
  expect_refused(shape + model + " --quiet", 2, "--quiet: with --list-ranks");
  expect_refused(shape + model + " --trace a.json", 2, "--trace: with --list-ranks");
  expect_refused(shape + model + " --tensor-parallel 7", 2, "--tensor-parallel 7");
  expect_refused(shape + model + " --data-parallel 1000000", 2, "more than a list has, 262,144");
  expect_refused(shape + model + " --expert-parallel 2", 2, "--expert-parallel 2");
}

}  // namespace
}  // namespace pipesim
