// The breakdown of a predicted iteration: where each rank's time and memory go; and how much of the
// devices' peak the model itself needs.
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

// What time is spent on: the classes of operators, in their order, without recomputation; then
// everything else.
enum class TimeUse : std::uint8_t {
  matmul,
  attention,
  elementwise,
  embedding,
  loss,
  tensor_parallel,
  context_parallel,
  expert_parallel,
  listed,
  host,
  recompute,  // recomputed forwards, with their communication
  hidden,     // reductions overlapped with weight gradients: negative
  messages,   // sending to other ranks, and gathering what they sent
  slowdown,   // by how much transfers slow compute down
  reduction,  // of gradients over replicas, and of a tied matrix
  optimizer,  // and the norm of gradients
};
inline constexpr int time_use_count = 16;
std::string_view time_use_name(TimeUse use);  // "GEMMs"
std::string time_use_key(TimeUse use);        // "matrix_products"

// Nanoseconds by use.
using TimeUses = std::array<std::int64_t, time_use_count>;
std::int64_t sum_of(const TimeUses& uses);

// Kernels of one name in one pass of a layer, for one microbatch.
struct KernelUse {
  std::string name;
  Pass pass = Pass::forward;
  int launches = 0;
  double flops = 0;
  double bytes = 0;  // through memory, of those that are listed
  std::int64_t time_ns = 0;
};

// Identical layers, for one microbatch through each.
struct LayerKind {
  std::string name;  // "embedding", "block", "head"; for listed layers the first one's
  int count = 1;
  TimeUses forward{};
  TimeUses backward{};             // B, or I and W together
  std::vector<KernelUse> kernels;  // if the software lists its own; recomputed ones once
};

// A rank's exchanges with its replicas that are actions, concurrent with compute.
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

// What an iteration of that length reaches.
struct Throughput {
  std::int64_t iteration_ns = 0;
  std::int64_t tokens = 0;                  // samples if the model is a list
  std::optional<double> tokens_per_second;  // none if nothing takes any time
  double model_flops = 0;                   // 0 if the model does not say
  double recomputed_flops = 0;
  double peak_flops_per_second = 0;  // of all devices
  std::optional<double> mfu;         // model FLOPs as a share of the peak's; none if either is 0
  std::optional<double> hfu;         // with recomputed FLOPs
};

struct Explanation {
  std::int64_t makespan_ns = 0;  // of the iteration that is broken down
  std::vector<LayerKind> layers;
  double recomputed_flops = 0;  // of a microbatch of all replicas
  std::vector<RankUse> ranks;
  // Of the device whose rates by kernel count, times what it has more; empty without kernels.
  std::string kernel_rates_of;
  // Keys of the device's and the cluster's file that matter here and have no confirmed source.
  std::vector<std::string> unverified_of_device;
  std::vector<std::string> unverified_of_cluster;
};

// Of an explained iteration with the blocks that it computes again.
Throughput throughput(const CostModel& model, int microbatches, std::int64_t iteration_ns,
                      double recomputed_flops = 0);

// By stage; empty if there are none.
std::vector<StageExchanges> tensor_exchanges(const CostModel& model, const PipelineShape& shape);

// `costs` are the model's for the shape, whose compute may have been changed, as by --slow-rank;
// `metrics`, `memory` and `spans` the result of their evaluation.
Explanation explain(const CostModel& model, const PipelineShape& shape, int microbatches,
                    const Costs& costs, const Metrics& metrics,
                    const std::vector<RankMemory>& memory, std::span<const Span> spans);

}  // namespace pipesim
