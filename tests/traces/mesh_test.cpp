// Numbers of ranks, their coordinates, and groups along an axis.
#include "traces/mesh.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/errors.h"

namespace pipesim {
namespace {

constexpr std::array all_axes{Axis::tensor, Axis::context, Axis::expert, Axis::data,
                              Axis::pipeline};

std::vector<std::int64_t> ranks_of(const RankGroup& group) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < group.count; ++i) ranks.push_back(group[i]);
  return ranks;
}

template <typename Values>
auto& along(Values& values, Axis axis) {
  switch (axis) {
    case Axis::tensor: return values.tensor;
    case Axis::context: return values.context;
    case Axis::expert: return values.expert;
    case Axis::data: return values.data;
    default: return values.pipeline;
  }
}

// All with up to three ranks along each axis.
template <typename Check>
void for_small_meshes(const Check& check) {
  for (int number = 0; number < 243; ++number) {
    MeshSizes sizes;
    int rest = number;
    for (const Axis axis : all_axes) {
      along(sizes, axis) = 1 + rest % 3;
      rest /= 3;
    }
    SCOPED_TRACE(number);
    check(Mesh(sizes), sizes);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Mesh, NumbersRanksAlongTheTensorAxisFirstAndThePipelineLast) {
  for_small_meshes([](const Mesh& mesh, const MeshSizes& sizes) {
    std::int64_t rank = 0;
    Coordinates at;
    for (at.pipeline = 0; at.pipeline < sizes.pipeline; ++at.pipeline) {
      for (at.data = 0; at.data < sizes.data; ++at.data) {
        for (at.expert = 0; at.expert < sizes.expert; ++at.expert) {
          for (at.context = 0; at.context < sizes.context; ++at.context) {
            for (at.tensor = 0; at.tensor < sizes.tensor; ++at.tensor, ++rank) {
              EXPECT_EQ(mesh.rank_at(at), rank);
              EXPECT_EQ(mesh.coordinates_of(rank), at);
            }
          }
        }
      }
    }
    EXPECT_EQ(mesh.ranks(), rank);
    for (const Axis axis : all_axes) EXPECT_EQ(mesh.size(axis), along(sizes, axis));
  });
}

TEST(Mesh, GroupsAlongAnAxisPartTheRanksAndDifferInThatAxisAlone) {
  for_small_meshes([](const Mesh& mesh, const MeshSizes& sizes) {
    for (const Axis axis : all_axes) {
      std::set<std::int64_t> firsts;
      std::multiset<std::int64_t> members;
      for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        const RankGroup group = mesh.group_of(rank, axis);
        EXPECT_EQ(group.count, along(sizes, axis));
        EXPECT_EQ(group.stride, mesh.stride(axis));
        Coordinates at = mesh.coordinates_of(rank);
        EXPECT_EQ(group[along(at, axis)], rank);
        for (std::int64_t i = 0; i < group.count; ++i) {
          along(at, axis) = i;
          EXPECT_EQ(mesh.coordinates_of(group[i]), at);
          EXPECT_EQ(mesh.group_of(group[i], axis), group);
        }
        if (!firsts.insert(group.first).second) continue;
        for (const std::int64_t member : ranks_of(group)) members.insert(member);
      }
      std::multiset<std::int64_t> all;
      for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) all.insert(rank);
      EXPECT_EQ(members, all);
    }
  });
}

// Of every size that divides it: a rank is in one block, and across, alone with itself in both.
TEST(Mesh, AGroupIsCutIntoBlocksOfNeighbours) {
  const Mesh mesh({.tensor = 2, .data = 12, .pipeline = 3});
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const RankGroup data = mesh.group_of(rank, Axis::data);
    const std::int64_t replica = mesh.coordinates_of(rank).data;
    for (const std::int64_t size : {1, 2, 3, 4, 6, 12}) {
      const auto [block, across] = split_group(data, size, rank);
      std::vector<std::int64_t> sharers;
      std::vector<std::int64_t> likes;
      for (std::int64_t other = 0; other < 12; ++other) {
        if (other / size == replica / size) sharers.push_back(data[other]);
        if (other % size == replica % size) likes.push_back(data[other]);
      }
      EXPECT_EQ(ranks_of(block), sharers);
      EXPECT_EQ(ranks_of(across), likes);
    }
  }
}

// The example of Megatron-LM's initialize_model_parallel(): 16 GPUs, tensors over 2, the
// pipeline over 4.
TEST(Mesh, GroupsAreThoseOfMegatron) {
  const Mesh mesh({.tensor = 2, .data = 2, .pipeline = 4});
  using Groups = std::set<std::vector<std::int64_t>>;
  const auto groups = [&](Axis axis) {
    Groups all;
    for (std::int64_t r = 0; r < mesh.ranks(); ++r) all.insert(ranks_of(mesh.group_of(r, axis)));
    return all;
  };
  EXPECT_EQ(groups(Axis::data),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups(Axis::tensor),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups(Axis::pipeline),
            (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
}

TEST(Mesh, SizesThatMakeNoMeshAreRefused) {
  using testing::input_error_of;
  EXPECT_EQ(input_error_of([] { Mesh({.data = 0}); }),
            "the data axis of a mesh has size 0; an axis has at least 1");
  EXPECT_EQ(input_error_of([] { Mesh({.pipeline = -3}); }),
            "the pipeline axis of a mesh has size -3; an axis has at least 1");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Mesh({.data = most}).ranks(), most);
  EXPECT_EQ(input_error_of([] { Mesh({.tensor = 2, .data = most / 2 + 1}); }),
            "a mesh of 2 x 1 x 1 x 4611686018427387904 x 1 has more ranks than can be counted; use "
            "fewer");
  for (const std::int64_t size : {0, 4, 7, -2}) {
    EXPECT_EQ(input_error_of([&] { split_group({.count = 6}, size, 0); }),
              "a group of 6 ranks has no blocks of " + std::to_string(size) +
                  "; use a size that divides it");
  }
}

}  // namespace
}  // namespace pipesim
