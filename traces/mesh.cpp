#include "traces/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <string_view>

#include "traces/base/error.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, axis_count> axis_names{"tensor", "context", "expert", "data",
                                                              "pipeline"};

}  // namespace

SplitGroup split_group(const RankGroup& group, std::int64_t size, std::int64_t rank) {
  if (size < 1 || group.count % size != 0) {
    throw input_error(fmt::format(
        "a group of {} ranks has no blocks of {}; use a size that divides it", group.count, size));
  }
  const std::int64_t place = (rank - group.first) / group.stride;
  return {{group[place / size * size], group.stride, size},
          {group[place % size], group.stride * size, group.count / size}};
}

Mesh::Mesh(const MeshSizes& sizes)
    : sizes_{sizes.tensor, sizes.context, sizes.expert, sizes.data, sizes.pipeline} {
  for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
    const std::int64_t size = sizes_[axis];
    if (size < 1) {
      throw input_error(fmt::format("the {} axis of a mesh has size {}; an axis has at least 1",
                                    axis_names[axis], size));
    }
    if (ranks_ > std::numeric_limits<std::int64_t>::max() / size) {
      throw input_error(fmt::format("a mesh of {} has more ranks than can be counted; use fewer",
                                    fmt::join(sizes_, " x ")));
    }
    strides_[axis] = ranks_;
    ranks_ *= size;
  }
}

Coordinates Mesh::coordinates_of(std::int64_t rank) const {
  const auto along = [&](Axis axis) { return rank / stride(axis) % size(axis); };
  return {along(Axis::tensor), along(Axis::context), along(Axis::expert), along(Axis::data),
          along(Axis::pipeline)};
}

std::int64_t Mesh::rank_at(const Coordinates& at) const {
  return at.tensor * stride(Axis::tensor) + at.context * stride(Axis::context) +
         at.expert * stride(Axis::expert) + at.data * stride(Axis::data) +
         at.pipeline * stride(Axis::pipeline);
}

RankGroup Mesh::group_of(std::int64_t rank, Axis axis) const {
  const std::int64_t place = rank / stride(axis) % size(axis);
  return {rank - place * stride(axis), stride(axis), size(axis)};
}

}  // namespace pipesim
