// The inverse of sim/import/torchtitan.cpp, which cites the source of the settings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/cli/export.h"
#include "sim/flags/schedule_choice.h"
#include "sim/import/torchtitan.h"
#include "sim/plan/trainer.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

class TorchtitanExport {
 public:
  TorchtitanExport(const PlanSpace& space, const PlanPoint& point, const LayersOfStages& layers,
                   std::string csv)
      : space_(space),
        point_(point),
        layers_(layers),
        csv_(std::move(csv)),
        request_(space.training(point)),
        training_(request_.training) {}

  std::string text() {
    check();
    const TorchtitanName name = torchtitan_name(request_.model);
    if (name.name.empty()) {
      throw input_error(fmt::format(
          "--export torchtitan: torchtitan has no flavor of a model that is like {}; known: "
          "llama3 and qwen3, such as --model llama-3-8b",
          printable(request_.model.name)));
    }
    table("model");
    add("name", quoted(name.name));
    add("flavor", quoted(name.flavor));
    if (training_.precision == Precision::fp8) add("converters", R"(["float8"])");
    add_training();
    add_parallelism();
    table("activation_checkpoint");
    const bool has_parts = point_.recompute.exists() && !point_.recompute.full;
    add("mode", quoted(point_.recompute.full ? "full" : has_parts ? "selective" : "none"));
    if (has_parts) add("selective_ac_option", quoted("op"));
    if (request_.cluster.device.software.name == "torchtitan-compile") {
      table("compile");
      add("enable", "true");
    }
    return lines_;
  }

 private:
  void table(std::string_view name) {
    lines_ += fmt::format("{}[{}]\n", lines_.empty() ? "" : "\n", name);
  }
  void add(std::string_view key, std::string_view value) {
    lines_ += fmt::format("{} = {}\n", key, value);
  }
  void add(std::string_view key, std::int64_t value) { add(key, std::to_string(value)); }
  static std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

  [[noreturn]] void refuse(std::string_view what, std::string_view remedy) const {
    throw input_error(
        fmt::format("--export torchtitan: torchtitan has no {}; give {}", what, remedy));
  }

  void check() const {
    if (training_.precision != Precision::bf16 && training_.precision != Precision::fp32 &&
        training_.precision != Precision::fp8) {
      refuse("such precision", "--precision bf16");
    }
  }

  void add_training() {
    table("training");
    const std::int64_t local = point_.stages > 1
                                   ? point_.micro_batch_size * space_.microbatches(point_)
                                   : point_.micro_batch_size;
    add("local_batch_size", local);
    add("global_batch_size", space_.question().global_batch);
    add("seq_len", training_.sequence_length);
    add("mixed_precision_param",
        quoted(training_.precision == Precision::fp32 ? "float32" : "bfloat16"));
  }

  void add_parallelism() {
    table("parallelism");
    const std::int64_t replicas = space_.data_parallel(point_);
    const std::int64_t contexts = training_.context_parallel;
    const std::int64_t holders = replicas * contexts;
    const std::int64_t shards = point_.replicas.zero == 3
                                    ? space_.shard_over(point_).value_or(static_cast<int>(holders))
                                    : 1;
    if (shards % contexts != 0) {
      refuse("context-parallel ranks that do not shard weights", "--zero 3 --shard-over all");
    }
    add("data_parallel_replicate_degree", holders / shards);
    add("data_parallel_shard_degree", shards / contexts);
    add_spread();
    if (shards > 1) {
      add("fsdp_reshard_after_forward",
          quoted(point_.replicas.gather == Gather::once ? "never" : "always"));
    }
    add("tensor_parallel_degree", point_.tensor_parallel);
    if (point_.tensor_parallel > 1 && training_.hidden_exchange.value_or(0) > 0) {
      add("enable_async_tensor_parallel", "true");
    }
    add("pipeline_parallel_degree", point_.stages);
    if (point_.stages == 1) return;
    add("pipeline_parallel_microbatch_size", point_.micro_batch_size);
    if (csv_.empty()) {
      add("pipeline_parallel_schedule", quoted(pytorch_schedule(*point_.schedule.family)));
    } else {
      add("pipeline_parallel_schedule", quoted("PipelineScheduleMulti"));
      add("pipeline_parallel_schedule_csv", quoted(csv_));
    }
    add_parts();
  }

  // How ranks share sequences and experts.
  void add_spread() {
    if (training_.context_parallel > 1) {
      if (training_.context_exchange == ContextExchange::all_to_all) {
        refuse("exchange of heads", "--context-parallel-type gather");
      }
      const bool is_ring = training_.context_exchange == ContextExchange::ring;
      add("context_parallel_degree", training_.context_parallel);
      add("context_parallel_rotate_method", quoted(is_ring ? "alltoall" : "allgather"));
    }
    if (!request_.model.has_experts()) return;
    const int split = training_.split_experts();
    const int ranks = training_.expert_parallel;
    if (split != training_.tensor_parallel && (split != 1 || ranks == 1)) {
      refuse("such --expert-tensor-parallel", "none");
    }
    if (ranks == 1) return;
    if (training_.dispatch == Dispatch::all_gather) {
      refuse("such --expert-dispatch", "--expert-dispatch alltoall");
    }
    add("expert_parallel_degree", ranks);
    add("expert_tensor_parallel_degree", split);
    if (training_.dispatch == Dispatch::deduplicated) {
      add("expert_parallel_comm_backend", quoted("deepep"));
    }
  }

  void add_parts() {
    const Schedule schedule = choose_schedule(space_.schedule(point_)).schedule;
    const CostModel costs = request_.with_ranks(point_.stages);
    const std::vector<int> layers = costs.layout({schedule.placement, false, layers_});
    lines_ += "module_fqns_per_model_part = [\n";
    const int all = request_.model.layers();
    int next = 0;
    for (const int count : layers) {
      std::vector<std::string> names;
      for (const int end = next + count; next < end; ++next) {
        if (next == 0) {
          names.push_back(quoted("tok_embeddings"));
        } else if (next + 1 == all) {
          names.push_back(quoted("norm"));
          names.push_back(quoted("output"));
        } else {
          names.push_back(quoted(fmt::format("layers.{}", next - 1)));
        }
      }
      lines_ += fmt::format("  [{}],\n", fmt::join(names, ", "));
    }
    lines_ += "]\n";
  }

  const PlanSpace& space_;
  const PlanPoint& point_;
  const LayersOfStages& layers_;
  std::string csv_;
  TrainingRequest request_;
  const Training& training_;
  std::string lines_;
};

}  // namespace

bool torchtitan_needs_csv(const PlanPoint& point) {
  return point.stages > 1 && pytorch_schedule(*point.schedule.family).empty();
}

std::string torchtitan_toml(const PlanSpace& space, const PlanPoint& point,
                            const LayersOfStages& layers, const std::string& schedule) {
  return TorchtitanExport(space, point, layers, schedule).text();
}

}  // namespace pipesim::cli
