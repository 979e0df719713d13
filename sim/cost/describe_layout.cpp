#include "sim/cost/describe_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace pipesim {
namespace {

// "layer 3", "layers 3-5".
std::string counted(std::string_view one, std::int64_t first, std::int64_t count) {
  if (count == 1) return fmt::format("{} {}", one, first);
  return fmt::format("{}s {}-{}", one, first, first + count - 1);
}

// Saturating: numbers for display, for arbitrarily absurd jobs.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}
std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

// What each device of a ring sends while `bytes` pass around it once, rounded up.
std::int64_t ring_bytes(std::int64_t bytes, std::int64_t devices) {
  return bytes - bytes / devices;
}

// How often each stage runs an action of that kind in an iteration.
std::vector<std::int64_t> times_done(const Schedule& schedule, Kind kind) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(schedule.stages()));
  for (const Action& action : schedule.actions.all()) {
    if (action.kind == kind) ++times[static_cast<std::size_t>(action.stage)];
  }
  return times;
}

class ReplicaExchanges {
 public:
  ReplicaExchanges(const LayoutFacts& facts, PipelineLayout& layout)
      : facts_(facts), layout_(layout), placement_(facts.schedule.placement) {}

  void add() {
    if (facts_.training == nullptr) return add_given();
    const Training& training = *facts_.training;
    if (!training.has_replicas() || facts_.parameters.empty()) return;
    const std::int64_t apart = std::int64_t{training.split_experts()} * training.expert_parallel;
    const RankGroup replicas{0, training.tensor_parallel, training.replicas()};
    const RankGroup of_experts{0, apart, training.expert_replicas()};
    if (facts_.expert_parameters.empty() || replicas == of_experts) {
      return add_of("", facts_.parameters, replicas, training.shards());
    }
    std::vector<std::int64_t> others = facts_.parameters;
    for (std::size_t s = 0; s < others.size(); ++s) others[s] -= facts_.expert_parameters[s];
    add_of("all but experts", others, replicas, training.shards());
    add_of("experts", facts_.expert_parameters, of_experts, training.expert_shards());
  }

 private:
  // Of parameters that these replicas have, by stage.
  void add_of(const char* of, const std::vector<std::int64_t>& parameters,
              const RankGroup& replicas, int shards_asked) {
    const Training& training = *facts_.training;
    const SplitGroup groups = split_group(replicas, shards_asked, 0);
    const RankGroup& sharers = groups.block;
    const RankGroup& likes = groups.across;
    const std::int64_t shards = sharers.count;
    const std::int64_t gradient = training.gradient_bytes;
    const std::int64_t weight = bytes_of(training.precision);
    const auto reduced = times_done(facts_.schedule, Kind::REDUCE_GRAD);
    const auto gathered = times_done(facts_.schedule, Kind::UNSHARD);
    // If the lists have no reduction, ranks do it once, at the end.
    const auto reductions = [&](std::size_t stage) {
      return std::max<std::int64_t>(1, reduced[stage]);
    };
    if (shards > 1) {
      add_by_stage("gradients", of, "reduce-scatter", sharers, [&](std::size_t stage) {
        return product(reductions(stage), ring_bytes(parameters[stage] * gradient, shards));
      });
    }
    if (likes.count > 1) {
      add_by_stage("gradients", of, "all-reduce", likes, [&](std::size_t stage) {
        const std::int64_t part = (parameters[stage] * gradient + shards - 1) / shards;
        return product(reductions(stage), 2 * ring_bytes(part, likes.count));
      });
    }
    if (shards == 1) return;
    add_by_stage("weights", of, "all-gather", sharers, [&](std::size_t stage) {
      const std::int64_t times = training.zero == 3 ? gathered[stage] : 1;
      return product(times, ring_bytes(parameters[stage] * weight, shards));
    });
  }

  // From a costs file, which does not say over how many replicas.
  void add_given() {
    const auto add_kind = [&](const char* what, const char* how, Kind kind,
                              CollectiveCosts StageCosts::*field, std::int64_t least) {
      const auto times = times_done(facts_.schedule, kind);
      add_by_stage(what, "", how, {}, [&](std::size_t stage) {
        return product(std::max(times[stage], least), (facts_.costs.stages[stage].*field).bytes);
      });
    };
    add_kind("gradients", "reduced", Kind::REDUCE_GRAD, &StageCosts::reduce, 1);
    add_kind("weights", "gathered", Kind::UNSHARD, &StageCosts::unshard, 0);
  }

  template <typename BytesOf>
  void add_by_stage(const char* what, const char* of, const char* how, const RankGroup& group,
                    BytesOf bytes_of_stage) {
    ReplicaExchange exchange{what, how, group, {}, of};
    exchange.bytes.resize(static_cast<std::size_t>(placement_.ranks()));
    for (int stage = 0; stage < placement_.stages(); ++stage) {
      std::int64_t& bytes = exchange.bytes[static_cast<std::size_t>(placement_.rank_of(stage))];
      bytes = sum(bytes, bytes_of_stage(static_cast<std::size_t>(stage)));
    }
    const auto sends = [](std::int64_t bytes) { return bytes > 0; };
    if (std::ranges::any_of(exchange.bytes, sends)) layout_.replicas.push_back(std::move(exchange));
  }

  const LayoutFacts& facts_;
  PipelineLayout& layout_;
  const Placement& placement_;
};

}  // namespace

std::string layer_names(const Model& model, int first, int count) {
  const int end = first + count;
  if (model.is_listed()) {
    std::string text = counted("layer", first, count) + ": " + model.layer_name(first);
    if (count > 1) text += " - " + model.layer_name(end - 1);
    return text;
  }
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (model.is_embedding(first)) add(model.layer_name(first));
  const int block = std::max(first, 1) - 1;  // the first, and one past the last
  const int blocks = static_cast<int>(model.blocks);
  const int block_end = std::min(end - 1, blocks);
  if (block < block_end) add(counted("block", block, block_end - block));
  for (int layer = std::max(first, blocks + 1); layer < end; ++layer) {
    if (model.is_prediction(layer)) add(model.layer_name(layer));
  }
  if (model.is_head(end - 1)) add(model.layer_name(end - 1));
  return text;
}

PipelineLayout describe_layout(const LayoutFacts& facts) {
  const Placement& placement = facts.schedule.placement;
  PipelineLayout layout;
  if (facts.model != nullptr) layout.model = facts.model->name;
  layout.schedule = facts.title;
  layout.microbatches = facts.schedule.microbatches;
  layout.sizes.pipeline = placement.ranks();
  if (facts.training != nullptr) {
    layout.sizes.tensor = facts.training->tensor_parallel;
    layout.sizes.context = facts.training->context_parallel;
    layout.sizes.data = facts.training->data_parallel;
    if (facts.model != nullptr && facts.model->has_experts()) {
      const Training& training = *facts.training;
      layout.experts = facts.model->experts;
      layout.expert_sizes = {.tensor = training.split_experts(),
                             .expert = training.expert_parallel,
                             .data = training.expert_replicas(),
                             .pipeline = placement.ranks()};
    }
  }
  int next_layer = 0;
  for (int s = 0; s < placement.stages(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const StageCosts& costs = facts.costs.stages[at];
    LaidStage& stage = layout.stages.emplace_back();
    stage.rank = placement.rank_of(s);
    stage.first_layer = next_layer;
    stage.weight_bytes = costs.weight_bytes;
    if (!facts.parameters.empty()) stage.parameters = facts.parameters[at];
    if (!facts.layers.empty()) {
      const int count = facts.layers[at];
      stage.layers = count;
      stage.layer_names = facts.model != nullptr ? layer_names(*facts.model, next_layer, count)
                                                 : counted("layer", next_layer, count);
      next_layer += count;
    }
    if (s + 1 == placement.stages() || placement.rank_of(s + 1) == stage.rank) continue;
    layout.messages.push_back({s, stage.rank, placement.rank_of(s + 1), costs.output_bytes});
  }
  const std::vector<int> sharers = group_of(Kind::REDUCE_TIED, placement);
  if (facts.costs.tied_gradients && sharers.size() > 1) {
    layout.tied = {layout.stages.front().rank, layout.stages.back().rank,
                   facts.costs.tied_gradients->bytes};
  }
  ReplicaExchanges(facts, layout).add();
  return layout;
}

}  // namespace pipesim
