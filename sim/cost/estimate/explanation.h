// What a predicted iteration makes of a model on a cluster: where each rank's
// time and memory go, and how much of the devices the model itself needs.
//
// Times are whole nanoseconds, and parts sum to the whole exactly. Pure
// functions of plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"
#include "traces/memory.h"
#include "traces/metrics.h"
#include "traces/timeline.h"

namespace pipesim {

// What time is spent on: the classes of operators, in their order, but for what
// is computed again; then all else.
enum class TimeUse : std::uint8_t {
  matmul,
  attention,
  elementwise,
  embedding,
  loss,
  tensor_parallel,
  listed,
  host,
  recompute,  // forwards computed again, with their communication
  hidden,     // reductions beside weight gradients: less than nothing
  messages,   // sending to other ranks, and gathering what they sent
  slowdown,   // by how much compute is slower beside transfers
  reduction,  // of gradients over replicas, and of a tied matrix
  optimizer,  // and the norm of gradients
};
inline constexpr int time_use_count = 14;
std::string_view time_use_name(TimeUse use);  // "GEMMs"
std::string time_use_key(TimeUse use);        // "matrix_products"

// Nanoseconds by use.
using TimeUses = std::array<std::int64_t, time_use_count>;
std::int64_t sum_of(const TimeUses& uses);

// Layers that take the same, one microbatch of each.
struct LayerKind {
  std::string name;  // "embedding", "block", "head"; of listed layers the first one's
  int count = 1;
  TimeUses forward{};
  TimeUses backward{};  // whole, or I and W together
};

// What a rank exchanges with its replicas as actions, next to what it computes.
struct NextToCompute {
  struct Exchanged {
    std::int64_t ns = 0;
    std::int64_t in_bubbles_ns = 0;  // of that, while the rank computes nothing
  };
  Exchanged reduction;  // REDUCE_GRADs
  Exchanged gather;     // UNSHARDs

  bool any() const { return reduction.ns > 0 || gather.ns > 0; }
};

struct RankUse {
  TimeUses time{};  // sums to the rank's busy time
  NextToCompute beside;
  RankMemory memory;
};

// How much an iteration of so long gets out of the devices.
struct Throughput {
  std::int64_t tokens = 0;                  // samples where the model is a list
  std::optional<double> tokens_per_second;  // none where nothing takes any time
  double model_flops = 0;                   // 0 where the model does not say
  double recomputed_flops = 0;
  double peak_flops_per_second = 0;  // of all devices
  std::optional<double> mfu;         // model FLOPs as a share of the peak's; none where either is 0
  std::optional<double> hfu;         // with those computed again
};

struct Explanation {
  Throughput throughput;
  std::vector<LayerKind> layers;
  std::vector<RankUse> ranks;
  // Keys of the device's and the cluster's file that count here and that
  // nothing was found to confirm.
  std::vector<std::string> unverified_of_device;
  std::vector<std::string> unverified_of_cluster;
};

Throughput throughput(const CostModel& model, int microbatches, std::int64_t makespan_ns);

// By stage; empty where there are none.
std::vector<StageExchanges> tensor_exchanges(const CostModel& model, const PipelineShape& shape);

// `costs` are the model's for the shape, `metrics`, `memory` and `spans` what an
// evaluation made of them.
Explanation explain(const CostModel& model, const PipelineShape& shape, int microbatches,
                    const Costs& costs, const Metrics& metrics,
                    const std::vector<RankMemory>& memory, std::span<const Span> spans);

}  // namespace pipesim
