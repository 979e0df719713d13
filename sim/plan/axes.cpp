#include "sim/plan/axes.h"

#include <algorithm>

namespace pipesim {
namespace {

// Numbers of chunks per rank: some for any model, and those that divide its blocks evenly.
std::vector<int> usual_chunks(std::int64_t blocks) {
  constexpr int for_any_model[] = {2, 3, 4, 6, 8, 12};
  constexpr int most = 12;
  std::vector<int> chunks;
  for (int count = 2; count <= std::min<std::int64_t>(most, blocks); ++count) {
    if (blocks % count == 0 || std::ranges::count(for_any_model, count) > 0) {
      chunks.push_back(count);
    }
  }
  return chunks;
}

// Ranks that share out a model's experts.
std::vector<int> expert_degrees(const Model& model) {
  return model.has_experts() ? divisors_up_to<int>(model.experts, model.experts) : std::vector{1};
}

// Ranks that share an expert: one, or all tensor-parallel ones where parts stay wide enough for
// products to be fast.
std::vector<int> expert_parts(const Model& model, int tensor_parallel) {
  if (!model.has_experts()) return {tensor_parallel};
  constexpr std::int64_t least_width = 1024;
  std::vector<int> parts{1};
  const bool is_wide = model.expert_size % tensor_parallel == 0 &&
                       model.expert_size / tensor_parallel >= least_width;
  if (tensor_parallel > 1 && is_wide) parts.push_back(tensor_parallel);
  return parts;
}

}  // namespace

std::vector<Recompute> plan_recomputes(const Model& model) {
  std::vector<Recompute> all;
  if (model.has_experts() || model.latent) {
    // Of fused attention nothing is kept; what experts make again has their activation.
    for (const bool norms : {false, true}) {
      for (const bool latent : model.latent ? std::vector{false, true} : std::vector{false}) {
        const Recompute one{.norms = norms, .latent = latent};
        all.insert(all.end(), 2, one);
        all.back().activation = true;
        if (model.has_experts()) (all.emplace_back(one)).experts = true;
      }
    }
    all.push_back({.full = true});
    return all;
  }
  for (const bool attention : {false, true}) {
    for (const bool norms : {false, true}) {
      for (const bool activation : {false, true}) {
        all.push_back({.attention = attention, .norms = norms, .activation = activation});
      }
    }
  }
  all.push_back({.full = true});
  return all;
}

std::vector<PlanSchedule> plan_schedules(std::int64_t blocks) {
  const std::vector<int> chunks = usual_chunks(blocks);
  std::vector<PlanSchedule> all;
  for (const Family& family : all_families()) {
    if (family.name == "naive") continue;
    if (!family.many_chunks) {
      all.push_back({&family, family.default_chunks});
      continue;
    }
    for (const int count : chunks) all.push_back({&family, count});
  }
  return all;
}

std::vector<PlanReplicas> plan_replicas() {
  constexpr std::int64_t bucket_sizes[] = {25'000'000, 100'000'000};
  std::vector<std::optional<std::int64_t>> buckets{std::nullopt};
  buckets.insert(buckets.end(), std::begin(bucket_sizes), std::end(bucket_sizes));
  std::vector<PlanReplicas> all;
  for (const auto& bucket : buckets) all.push_back({.bucket_bytes = bucket});
  for (const bool within_node : {false, true}) {
    for (const bool ahead : {false, true}) {
      for (const auto& bucket : buckets) {
        all.push_back({.zero = 1,
                       .within_node = within_node,
                       .bucket_bytes = bucket,
                       .gathers_ahead = ahead});
      }
      all.push_back({.zero = 2, .within_node = within_node, .gathers_ahead = ahead});
    }
    for (const Gather gather : {Gather::window, Gather::pass, Gather::once}) {
      all.push_back({.zero = 3, .within_node = within_node, .gather = gather});
    }
  }
  return all;
}

std::vector<PlanSplit> plan_splits(const Model& model, const PlanSplit& dense) {
  std::vector<PlanSplit> all;
  for (const int experts : expert_degrees(model)) {
    for (const int parts : expert_parts(model, dense.tensor_parallel)) {
      all.push_back({dense.tensor_parallel, dense.context_parallel, experts, parts});
    }
  }
  return all;
}

}  // namespace pipesim
