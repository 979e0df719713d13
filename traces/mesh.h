// Ranks in a mesh: the coordinates of each, and the groups of ranks along an axis.
//
// Ranks are numbered from 0, along the tensor axis first and along the pipeline last, in
// the order of Megatron-LM (tp-cp-ep-dp-pp). One rank drives one device. Context and expert
// only have a name and a place in that order: nothing is split along them yet, and their
// size is 1. Plain values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pipesim {

// In the order of numbering.
enum class Axis : std::uint8_t { tensor, context, expert, data, pipeline };
inline constexpr int axis_count = 5;

// One number per axis; those not given are `usual`.
template <std::int64_t usual>
struct PerAxis {
  std::int64_t tensor = usual;
  std::int64_t context = usual;
  std::int64_t expert = usual;
  std::int64_t data = usual;
  std::int64_t pipeline = usual;

  bool operator==(const PerAxis&) const = default;
};
using MeshSizes = PerAxis<1>;
using Coordinates = PerAxis<0>;  // each from 0

// Ranks first, first + stride, ...: `count` of them.
struct RankGroup {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 1;

  // The rank at an index in the group, from 0.
  std::int64_t operator[](std::int64_t place) const { return first + place * stride; }
  std::int64_t last() const { return (*this)[count - 1]; }
  bool operator==(const RankGroup&) const = default;
};

// A group divided into blocks of neighbours, as seen by one of its ranks. With hybrid sharding,
// states are sharded within `block`, and ranks of `across` hold the same
// part.
struct SplitGroup {
  RankGroup block;   // the rank's own block
  RankGroup across;  // the ranks at its index in each block
};
// `rank` is one of the group's. An input error if blocks of `size` don't fill the group.
SplitGroup split_group(const RankGroup& group, std::int64_t size, std::int64_t rank);

class Mesh {
 public:
  // An input error if a size is below 1, or there are more ranks than fit in an int64.
  explicit Mesh(const MeshSizes& sizes = {});

  std::int64_t ranks() const { return ranks_; }
  std::int64_t size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  // The distance between neighbours' numbers along the axis. Along the pipeline: how many
  // ranks share a pipeline coordinate.
  std::int64_t stride(Axis axis) const { return strides_[static_cast<std::size_t>(axis)]; }

  // Ranks and coordinates are those of the mesh.
  Coordinates coordinates_of(std::int64_t rank) const;
  std::int64_t rank_at(const Coordinates& at) const;
  // The ranks that differ from this one only along the axis, itself included; the first is the
  // one with coordinate 0.
  RankGroup group_of(std::int64_t rank, Axis axis) const;

  bool operator==(const Mesh&) const = default;

 private:
  std::array<std::int64_t, axis_count> sizes_;
  std::array<std::int64_t, axis_count> strides_{};
  std::int64_t ranks_ = 1;
};

}  // namespace pipesim
