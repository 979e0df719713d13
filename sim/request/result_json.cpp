#include "sim/request/result_json.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/estimate/error_band.h"
#include "sim/schedule/description.h"
#include "traces/base/json.h"
#include "traces/metrics_json.h"

namespace pipesim {

namespace {

// When a rank is fullest, the cause, and the parts other than activations: null if nothing ever
// changes.
Json peak_json(const MemoryPeak& peak) {
  if (peak.total == 0) return nullptr;
  return {{"action", to_text(peak.action)},
          {"time_ns", peak.time_ns},
          {"weight_residue_bytes", peak.bytes.residue},
          {"send_buffer_bytes", peak.bytes.send_buffers},
          {"receive_buffer_bytes", peak.bytes.receive_buffers}};
}

// All inputs of the costs, defaults included.
// How routed experts are spread; null without any.
Json experts_json(const CostModel& model) {
  const Training& training = model.training();
  if (!model.model().has_experts()) return nullptr;
  const ExpertRows rows = expert_rows(model.model(), training);
  return {{"expert_parallel", training.expert_parallel},
          {"expert_tensor_parallel", training.split_experts()},
          {"dispatch", dispatch_name(training.dispatch)},
          {"load", training.expert_load.name},
          {"imbalance", rows.imbalance},
          {"capacity", training.expert_capacity},
          {"dropped", rows.dropped}};
}

Json training_json(const CostModel& model) {
  const Training& training = model.training();
  const auto& kernels = model.cluster().device.software.kernels;
  const Precision narrow =
      training.precision == Precision::fp8 ? Precision::bf16 : training.precision;
  const Precision weights = kernels && kernels->keeps_wide_weights ? Precision::fp32 : narrow;
  return {{"model", model.model().name},
          {"cluster", model.cluster().name},
          {"device", model.cluster().device.name},
          {"devices", training.devices()},
          {"micro_batch_size", training.micro_batch_size},
          {"sequence_length", training.sequence_length},
          {"tensor_parallel", training.tensor_parallel},
          {"context_parallel", training.context_parallel},
          {"context_parallel_type", training.context_parallel > 1
                                        ? Json(context_exchange_name(training.context_exchange))
                                        : Json(nullptr)},
          {"data_parallel", training.data_parallel},
          {"experts", experts_json(model)},
          {"sequence_parallel", training.sequence_parallel},
          {"recompute", recompute_name(training.recompute)},
          {"attention", attention_name(training.attention)},
          {"precision", precision_name(training.precision)},
          {"weights", precision_name(weights)},
          {"zero", training.zero},
          {"shard_over", training.shard_over},
          {"gather", training.gather ? Json(gather_name(*training.gather)) : Json(nullptr)},
          {"gradient_bytes", training.gradient_bytes},
          {"bucket_bytes", training.bucket_bytes},
          {"overlap_gather", training.gathers_next_to_forwards()},
          {"tensor_overlap", training.asynchronous_reduction},
          {"hidden_exchange", hidden_exchange(training, model.cluster().device.software)},
          {"optimizer_bytes", training.optimizer_bytes.value_or(usual_optimizer_bytes(
                                  training, model.cluster().device.software))},
          {"fused_loss", training.fused_loss},
          {"fused_sums", training.fused_sums},
          {"software", model.cluster().device.software.name},
          {"software_factor", model.software_factor()}};
}

// The first `count` uses.
Json uses_json(const TimeUses& uses, std::size_t count = time_use_count) {
  Json json = Json::object();
  for (std::size_t u = 0; u < count; ++u) {
    json[time_use_key(static_cast<TimeUse>(u))] = uses[u];
  }
  return json;
}

Json kernels_json(const std::vector<KernelUse>& kernels) {
  constexpr std::array<std::string_view, pass_count> passes{"forward", "input_gradient",
                                                            "weight_gradient"};
  Json list = Json::array();
  for (const KernelUse& one : kernels) {
    list.push_back({{"kernel", one.name},
                    {"pass", passes[static_cast<std::size_t>(one.pass)]},
                    {"launches", one.launches},
                    {"flops", one.flops},
                    {"bytes", one.bytes},
                    {"time_ns", one.time_ns}});
  }
  return list;
}

Json explanation_json(const Explanation& explanation, const Throughput& throughput,
                      std::int64_t memory_bytes) {
  constexpr auto of_layers = static_cast<std::size_t>(TimeUse::messages);
  Json layers = Json::array();
  for (const LayerKind& kind : explanation.layers) {
    Json layer{{"name", kind.name},
               {"count", kind.count},
               {"forward_ns", uses_json(kind.forward, of_layers)},
               {"backward_ns", uses_json(kind.backward, of_layers)}};
    if (!kind.kernels.empty()) layer["kernels"] = kernels_json(kind.kernels);
    layers.push_back(std::move(layer));
  }
  Json ranks = Json::array();
  for (std::size_t r = 0; r < explanation.ranks.size(); ++r) {
    const RankUse& rank = explanation.ranks[r];
    const WorkingBytes& working = rank.memory.peak.bytes;
    ranks.append({{"rank", r},
                  {"time_ns", uses_json(rank.time)},
                  {"next_to_compute_ns",
                   {{"reduction", rank.beside.reduction.ns},
                    {"reduction_in_bubbles", rank.beside.reduction.in_bubbles_ns},
                    {"gather", rank.beside.gather.ns},
                    {"gather_in_bubbles", rank.beside.gather.in_bubbles_ns}}},
                  {"memory_bytes",
                   {{"weights", rank.memory.states.weights},
                    {"gradients", rank.memory.states.gradients},
                    {"optimizer", rank.memory.states.optimizer},
                    {"activations", working.activations},
                    {"weight_residue", working.residue},
                    {"send_buffers", working.send_buffers},
                    {"receive_buffers", working.receive_buffers},
                    {"unsharded", working.unsharded},
                    {"workspace", working.workspace},
                    {"reserved", rank.memory.reserved}}},
                  {"left_bytes", memory_bytes - rank.memory.total()}});
  }
  return {{"makespan_ns", explanation.makespan_ns},
          {"tokens", throughput.tokens},
          {"model_flops", throughput.model_flops},
          {"recomputed_flops", throughput.recomputed_flops},
          {"peak_flops_per_second", throughput.peak_flops_per_second},
          {"hfu", throughput.hfu},
          {"memory_bytes", memory_bytes},
          {"layers", std::move(layers)},
          {"ranks", std::move(ranks)},
          {"unverified",
           {{"device", explanation.unverified_of_device},
            {"cluster", explanation.unverified_of_cluster}}}};
}

}  // namespace

Json error_band_json(const std::optional<ErrorBand>& band) {
  if (!band) return nullptr;
  return {{"fraction", band->fraction},
          {"sets", band->sets},
          {"rows", band->rows},
          {"held", band->held},
          {"other_layouts", false}};
}

Json memory_error_band_json(const std::optional<ErrorBand>& band) {
  if (!band) return nullptr;
  return {{"fraction", band->fraction}, {"sets", band->sets}, {"rows", band->rows}};
}

std::string result_json(const Schedule& schedule, const Prediction& prediction,
                        std::optional<std::int64_t> memory_cap,
                        const std::optional<CostModel>& model,
                        const std::optional<Explanation>& explanation,
                        const std::optional<MakespanSpread>& spread,
                        const std::optional<SaveEffect>& saves, const std::vector<Note>& notes) {
  const Metrics& metrics = prediction.metrics;
  Json json;
  json["format"] = "pipesim-result";
  json["version"] = 1;
  describe(schedule, json);
  if (model) json["training"] = training_json(*model);
  if (model) {
    json["error_band"] = error_band_json(error_band(*model));
    json["memory_error_band"] = memory_error_band_json(memory_error_band(*model));
  }
  json["p2p"] = p2p_name(prediction.transfers.mode);
  json["eager_limit_bytes"] = prediction.transfers.eager_limit_bytes;
  json["makespan_ns"] = metrics.makespan_ns;
  if (spread) {
    json["makespan_spread_ns"] = {
        {"p50", spread->p50_ns}, {"p95", spread->p95_ns}, {"seeds", spread->seeds}};
  }
  json["iterations"] = metrics.iteration_ends_ns.size();
  json["accumulate"] = prediction.accumulation.passes;
  json["steady_iteration_ns"] = prediction.steady_iteration_ns();
  if (saves) {
    json["save"] = {
        {"every", saves->saves.every},   {"async", saves->saves.beside},
        {"bytes", saves->bytes},         {"saved_ns", saves->saved_ns},
        {"stall_ns", saves->stall_ns},   {"mean_iteration_ns", saves->mean_iteration_ns},
        {"fraction", saves->fraction()}, {"keeps_up", saves->keeps_up}};
  }
  std::optional<Throughput> reached;
  if (model) {
    reached = throughput(*model, schedule.microbatches, prediction.iteration_ns(),
                         explanation ? explanation->recomputed_flops : 0);
    json["tokens_per_second"] = reached->tokens_per_second;
    json["mfu"] = reached->mfu;
  }
  Json& bubble = json["bubble_fraction"];
  bubble["global"] = metrics.global_bubble();
  bubble["span"] = metrics.span_bubble();
  bubble["closed_form"] = nullptr;
  if (prediction.closed_form) {
    const auto& closed = *prediction.closed_form;
    bubble["closed_form"] = {
        {"metric", closed.form.metric == BubbleMetric::global ? "global" : "span"},
        {"fraction", closed.fraction}};
  }
  json["peak_activation_chunks"] = metrics.peak_activation_chunks();
  json["peak_activation_bytes"] = metrics.peak_activation_bytes();
  json["peak_memory_bytes"] = prediction.peak_memory_bytes();
  if (memory_cap) json["fits"] = prediction.peak_memory_bytes() <= *memory_cap;
  json["critical_path"] = critical_path_json(metrics.critical_path);
  const auto any_has = [&](std::int64_t WorkingBytes::*bytes) {
    return std::ranges::any_of(prediction.memory,
                               [&](const RankMemory& rank) { return rank.peak.bytes.*bytes > 0; });
  };
  const bool gathers = any_has(&WorkingBytes::unsharded);
  const bool has_workspace = any_has(&WorkingBytes::workspace);
  Json ranks = Json::array();
  for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
    const RankMetrics& rank = metrics.ranks[r];
    const RankMemory& memory = prediction.memory[r];
    Json entry;
    entry["rank"] = r;
    entry["busy_ns"] = rank.busy_ns;
    entry["first_start_ns"] = rank.first_start_ns;
    entry["last_end_ns"] = rank.last_end_ns;
    entry["bubble_ns"] = bubble_json(rank.bubble);
    entry["peak_activation_chunks"] = rank.peak_activation_chunks;
    entry["peak_activation_bytes"] = rank.peak_activation_bytes;
    entry["peak_memory_bytes"] = memory.total();
    if (memory_cap) entry["fits"] = memory.total() <= *memory_cap;
    const WorkingBytes& working = memory.peak.bytes;
    entry["memory_bytes"] = memory_bytes_json(memory);
    if (gathers) entry["memory_bytes"]["unsharded"] = working.unsharded;
    if (has_workspace) entry["memory_bytes"]["workspace"] = working.workspace;
    if (memory.reserved > 0) entry["memory_bytes"]["reserved"] = memory.reserved;
    entry["peak_memory"] = peak_json(memory.peak);
    if (spread && !spread->rank_shares.empty()) entry["spread_share"] = spread->rank_shares[r];
    ranks.append(entry);
  }
  json["ranks"] = std::move(ranks);
  Json& noted = json["notes"] = Json::array();
  for (const Note& note : notes) {
    noted.push_back({{"key", note.key},
                     {"gain_ns", note.gain_ns},
                     {"text", note.text},
                     {"lesson", note.lesson}});
  }
  if (explanation) {
    json["explanation"] = explanation_json(*explanation, reached.value(), memory_cap.value());
  }
  return json.dump(2) + "\n";
}

}  // namespace pipesim
