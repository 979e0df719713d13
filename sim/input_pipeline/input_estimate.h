// Costs of an input pipeline from a recommendation model, who has which table, and a cluster.
//
// Expected values: each rank's mean batch, and of skewed tables the part of the ids that a rank's
// rows are asked for. What the formulas are, and what they leave out, stands in ESTIMATE.md. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/hardware/cluster.h"
#include "sim/input_pipeline/input_costs.h"
#include "sim/input_pipeline/recommendation_model.h"
#include "sim/input_pipeline/sharding.h"

namespace pipesim {

// What a cluster's description does not say.
struct InputSoftware {
  Precision precision = Precision::fp32;  // of products: fp32 or tf32
  std::int64_t next_ns = 100'000;         // to take a batch that a loader has ready
  // What the host takes to launch a kernel or a transfer; by default a part of what the device's
  // `host_forward` is for a block of a transformer.
  std::optional<std::int64_t> launch_ns;
  std::int64_t bucket_bytes = 25 << 20;  // of gradients that are reduced together
  // The part of each table's rows that device memory has, the most popular ones. The others are
  // in the host's, and PREFETCH brings them; with 1 it has nothing to do.
  double cached_share = 1;
  std::uint64_t seed = 0;  // says which rows are popular
};

// An input error where the device has no rate for that precision, or the cluster too few devices.
InputCosts estimate_input(const RecommendationModel& model, const ShardingPlan& plan,
                          const Cluster& cluster, int ranks, std::int64_t batch_size,
                          const InputSoftware& software, TableOptimizer optimizer);

struct InputMemoryLack {
  int rank = 0;
  std::int64_t bytes = 0;  // that it has not, positive
};
// The rank that lacks most; nothing where all have enough.
std::optional<InputMemoryLack> find_memory_lack(const std::vector<InputMemory>& memory,
                                                std::int64_t device_bytes);
// One sentence that names rank, bytes and the largest table there, and says how to mend it.
std::string to_text(const InputMemoryLack& lack, const std::vector<InputMemory>& memory,
                    const RecommendationModel& model, const ShardingPlan& plan,
                    const Cluster& cluster);

}  // namespace pipesim
