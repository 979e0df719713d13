// Costs of an input pipeline from a recommendation model, its sharding plan, and a cluster.
// Expected values: each rank's mean batch, and for skewed tables the share of ids that fall in a
// rank's rows. ESTIMATE.md has the formulas, and what they omit. Pure functions; any thread.
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

// Settings that a cluster's description does not have.
struct InputSoftware {
  Precision precision = Precision::fp32;  // of GEMMs: fp32 or tf32
  std::int64_t next_ns = 100'000;         // to take a batch that a loader has prepared
  // The host's time to launch a kernel or a transfer; by default a fraction of the device's
  // `host_forward`, which is for a block of a transformer.
  std::optional<std::int64_t> launch_ns;
  std::int64_t bucket_bytes = 25 << 20;  // of gradients reduced together
  // The share of each table's rows in device memory, the most popular ones. The others are in the
  // host's, and PREFETCH copies them; with 1 it has nothing to do.
  double cached_share = 1;
  std::uint64_t seed = 0;  // determines which rows are popular
};

// Throws an input error if the device has no rate for that precision, or the cluster has too few
// devices.
InputCosts estimate_input(const RecommendationModel& model, const ShardingPlan& plan,
                          const Cluster& cluster, int ranks, std::int64_t batch_size,
                          const InputSoftware& software, TableOptimizer optimizer);

struct InputMemoryLack {
  int rank = 0;
  std::int64_t bytes = 0;  // missing, positive
};
// The rank that lacks most; nothing if all have enough.
std::optional<InputMemoryLack> find_memory_lack(const std::vector<InputMemory>& memory,
                                                std::int64_t device_bytes);
// One sentence that names rank, bytes and the largest table there, and says how to fix it.
std::string to_text(const InputMemoryLack& lack, const std::vector<InputMemory>& memory,
                    const RecommendationModel& model, const ShardingPlan& plan,
                    const Cluster& cluster);

}  // namespace pipesim
