#include "sim/plan/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Megatron-LM's order is the same as PyTorch's if stages divide the microbatches, as in a plan.
constexpr std::pair<std::string_view, std::string_view> pytorch_schedules[] = {
    {"1f1b", "1F1B"},
    {"gpipe", "GPipe"},
    {"bfs", "LoopedBFS"},
    {"interleaved", "Interleaved1F1B"},
    {"interleaved-pytorch", "Interleaved1F1B"},
    {"interleaved-zb", "InterleavedZeroBubble"},
    {"zb-v", "ZBVZeroBubble"},
    {"dualpipe-v", "DualPipeV"},
};

// Its interleaved schedule takes whole groups (sim/import/megatron_rules.h).
constexpr PlanTrainer megatron{
    .format = "megatron",
    .imported = "Megatron-LM arguments",
    .name = "Megatron-LM",
    .software = "",
    .has_schedule =
        [](const Family& family) { return family.name == "1f1b" || family.name == "interleaved"; },
    .has_recompute =
        [](const Recompute& recompute, const Model& model) {
          return !recompute.activation || model.has_experts();
        },
    .has_replicas =
        [](const PlanReplicas& replicas, int) {
          const bool gathers_late = !replicas.gathers_ahead || replicas.bucket_bytes.has_value();
          if (replicas.zero < 2) return gathers_late;
          return !replicas.within_node && replicas.gather.value_or(Gather::pass) == Gather::pass;
        },
    .has_point =
        [](const PlanPoint& point, int microbatches) {
          return point.schedule.family->name != "interleaved" ||
                 (point.stages > 1 && microbatches % point.stages == 0);
        },
};

// selective_ac_option = "op"
constexpr Recompute torchtitan_selective{.norms = true, .activation = true, .products = true};

// Other orders go into a file, where stages are dealt out in a loop.
constexpr PlanTrainer torchtitan{
    .format = "torchtitan",
    .imported = "TOML of torchtitan",
    .name = "torchtitan",
    .software = "torchtitan",
    .has_schedule =
        [](const Family& family) {
          return !pytorch_schedule(family).empty() || family.placement == "loop";
        },
    .has_recompute =
        [](const Recompute& recompute, const Model&) {
          const bool is_whole = recompute.full && recompute.blocks == 0;
          return !recompute.exists() || is_whole || recompute == torchtitan_selective;
        },
    .has_replicas =
        [](const PlanReplicas& replicas, int) {
          constexpr std::int64_t bucket = 100'000'000;
          return replicas.zero == 0 ? replicas.bucket_bytes == bucket
                                    : replicas.zero == 3 && replicas.gather != Gather::window;
        },
    .has_point =
        [](const PlanPoint& point, int microbatches) {
          const Family& family = *point.schedule.family;
          const bool is_single = family.name == "1f1b" || family.name == "gpipe";
          return (point.sequence_parallel || point.tensor_parallel == 1) &&
                 (!is_single || microbatches >= point.stages);
        },
};

// Its pipeline refuses gradients and weights that replicas split
// (deepspeed/runtime/pipe/engine.py).
constexpr PlanTrainer deepspeed{
    .format = "",
    .imported = "JSON of DeepSpeed",
    .name = "DeepSpeed",
    .software = "deepspeed",
    .has_schedule = [](const Family& family) { return family.name == "1f1b"; },
    .has_recompute = [](const Recompute& recompute,
                        const Model&) { return !recompute.exists() || recompute.full; },
    .has_replicas =
        [](const PlanReplicas& replicas, int stages) {
          const bool is_sharded_alike = !replicas.within_node || replicas.zero == 3;
          return is_sharded_alike && !replicas.gathers_ahead &&
                 replicas.gather.value_or(Gather::pass) == Gather::pass &&
                 (stages == 1 || replicas.zero < 2);
        },
    .has_point = [](const PlanPoint&, int) { return true; },
};

}  // namespace

const PlanTrainer& imported_trainer(std::string_view format) {
  for (const PlanTrainer* one : {&megatron, &torchtitan}) {
    if (one->imported == format) return *one;
  }
  return deepspeed;
}

const PlanTrainer& plan_trainer(std::string_view format) {
  for (const PlanTrainer* one : {&megatron, &torchtitan}) {
    if (one->format == format) return *one;
  }
  throw input_error(fmt::format(
      "--export: {}", unknown_name("format", std::string(format), {"megatron", "torchtitan"})));
}

std::string_view pytorch_schedule(const Family& family) {
  const auto* const found = std::ranges::find(
      pytorch_schedules, family.name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(pytorch_schedules) ? std::string_view() : found->second;
}

void PlanSpace::restrict_to(const PlanTrainer& trainer) {
  trainer_ = &trainer;
  // `all`: not narrowed; `text_of`: a value, as a flag of the plan has it.
  const PlanAxes all = PlanSpace(question_).axes_;
  const auto keep = [&](auto PlanAxes::*axis, std::string_view what, const auto& has,
                        const auto& text_of) {
    auto& values = axes_.*axis;
    const auto narrowed = values;
    std::erase_if(values, [&](const auto& value) { return !has(value); });
    if (!values.empty()) return;
    const auto texts_of = [&](const auto& those, bool is_had) {
      std::vector<std::string> texts;
      for (const auto& value : those) {
        std::string text = text_of(value);
        if (has(value) == is_had && std::ranges::count(texts, text) == 0) {
          texts.push_back(std::move(text));
        }
      }
      return fmt::format("{}", fmt::join(texts, ", "));
    };
    throw input_error(fmt::format("{} has no {}{}; it has {}", trainer.name, what,
                                  texts_of(narrowed, false), texts_of(all.*axis, true)));
  };
  keep(
      &PlanAxes::schedules, "schedule ",
      [&](const PlanSchedule& one) { return trainer.has_schedule(*one.family); },
      [](const PlanSchedule& one) { return std::string(one.family->name); });
  keep(
      &PlanAxes::recompute, "--recompute ",
      [&](const Recompute& one) { return trainer.has_recompute(one, question_.training.model); },
      [](const Recompute& one) { return recompute_name(one); });
  keep(
      &PlanAxes::replicas, "",
      [&](const PlanReplicas& one) { return trainer.has_replicas(one, 1); },
      [](const PlanReplicas& one) {
        std::string text = fmt::format("--zero {}", one.zero);
        if (one.zero < 2) text += " --bucket-bytes " + bucket_text(one);
        if (one.gather) text += fmt::format(" --gather {}", gather_name(*one.gather));
        return text;
      });
}

}  // namespace pipesim
