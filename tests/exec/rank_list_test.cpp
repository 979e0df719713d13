// Who is what, in meshes of one and of several axes.
#include "exec/cli/rank_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pipesim {
namespace {

const std::vector<exec::RankFacts> four{{"node1", 0, "cuda:0"},
                                        {"node1", 1, "cuda:1"},
                                        {"other", 0, "cuda:0"},
                                        {"other", 1, "cuda:1, large"}};

TEST(RankList, HasACoordinateForEachAxis) {
  EXPECT_EQ(exec::rank_list(Mesh({.tensor = 2, .pipeline = 2}), four, "tcp"),
            "4 ranks, transport tcp\n"
            "\n"
            "rank  pipeline  data  tensor  local  host   device\n"
            "   0         0     0       0      0  node1  cuda:0\n"
            "   1         0     0       1      1  node1  cuda:1\n"
            "   2         1     0       0      0  other  cuda:0\n"
            "   3         1     0       1      1  other  cuda:1, large\n");
  EXPECT_NE(exec::rank_list(Mesh({.expert = 4}), four, "mpi")
                .find("rank  pipeline  data  tensor  expert  local  host "),
            std::string::npos);
}

TEST(RankList, IsJsonToo) {
  const auto json =
      nlohmann::json::parse(exec::rank_list_json(Mesh({.data = 2, .pipeline = 2}), four, "tcp"));
  EXPECT_EQ(json["format"], "pipeexec-ranks");
  EXPECT_EQ(json["mesh"]["data"], 2);
  ASSERT_EQ(json["ranks"].size(), 4);
  const auto& last = json["ranks"][3];
  EXPECT_EQ(last["rank"], 3);
  EXPECT_EQ(last["host"], "other");
  EXPECT_EQ(last["local_rank"], 1);
  EXPECT_EQ(last["device"], "cuda:1, large");
  EXPECT_EQ(last["coordinates"]["pipeline"], 1);
  EXPECT_EQ(last["coordinates"]["data"], 1);
  EXPECT_EQ(last["coordinates"]["tensor"], 0);
}

}  // namespace
}  // namespace pipesim
