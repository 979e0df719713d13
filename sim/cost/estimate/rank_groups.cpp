#include "sim/cost/estimate/rank_groups.h"

namespace pipesim {
namespace {

// Of ranks that differ only along these axes, neighbours in the order of numbering.
std::vector<RankGroup> groups_along(const Mesh& mesh, Axis first, Axis last) {
  const std::int64_t stride = mesh.stride(first);
  const std::int64_t count = mesh.stride(last) * mesh.size(last) / stride;
  std::vector<RankGroup> groups;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (rank / stride % count == 0) groups.push_back({rank, stride, count});
  }
  return groups;
}

}  // namespace

std::vector<RankGroups> rank_groups(const Training& training, int pipeline_ranks,
                                    bool has_experts) {
  std::vector<RankGroups> all;
  const auto add = [&](std::string_view key, std::string_view name, const Mesh& mesh, Axis first,
                       Axis last) {
    all.push_back({key, name, groups_along(mesh, first, last)});
  };
  const Mesh mesh = training.mesh(pipeline_ranks);
  add("tensor", "tensor", mesh, Axis::tensor, Axis::tensor);
  add("context", "context", mesh, Axis::context, Axis::context);
  add("data", "data", mesh, Axis::data, Axis::data);
  add("gradients", "gradients", mesh, Axis::context, Axis::data);
  add("pipeline", "pipeline", mesh, Axis::pipeline, Axis::pipeline);
  if (!has_experts) return all;
  const Mesh experts = training.expert_mesh(pipeline_ranks);
  add("experts", "experts", experts, Axis::expert, Axis::expert);
  add("expert_parts", "parts of experts", experts, Axis::tensor, Axis::tensor);
  add("expert_replicas", "replicas of experts", experts, Axis::data, Axis::data);
  return all;
}

}  // namespace pipesim
