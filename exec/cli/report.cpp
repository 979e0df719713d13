#include "exec/cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "exec/device/devices.h"
#include "sim/schedule/description.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/metrics_json.h"
#include "traces/print/picture.h"
#include "traces/print/rank_table.h"
#include "traces/print/tables.h"

namespace pipesim::exec {
namespace {

// From the median iteration or, if some of them step and others don't, from all.
double tokens_per_second(const TrainingJob& training, const RunResult& result) {
  std::int64_t time_ns = result.median_ns();
  std::int64_t tokens = training.tokens();
  if (training.accumulate > 1) {
    const std::vector<std::int64_t> times = result.iteration_ns();
    time_ns = std::accumulate(times.begin(), times.end(), std::int64_t{0});
    tokens *= std::ssize(times);
  }
  return static_cast<double>(tokens) * 1e9 /
         static_cast<double>(std::max<std::int64_t>(1, time_ns));
}

std::string verdict(const Task& task, const RunResult& result, const Terminal& terminal) {
  const Schedule& program = task.training.program;
  const int chunks = program.placement.virtual_stages();
  const int replicas = task.training.data_parallel;
  std::string what = fmt::format("{}, {}", task.title, plural(program.ranks(), "rank"));
  if (chunks > 1) what += fmt::format(" x {}", plural(chunks, "chunk"));
  if (task.training.tensor_parallel > 1) {
    what += fmt::format(" x {} tensor-parallel", task.training.tensor_parallel);
  }
  if (replicas > 1) what += fmt::format(" x {}", plural(replicas, "replica"));
  what += fmt::format(", {}{}: median iteration {}, of which {:.0f} % bubble",
                      plural(program.microbatches, "microbatch"), replicas > 1 ? " each" : "",
                      format_time(result.median_ns()), result.metrics.global_bubble() * 100);
  if (!task.training.costs) {
    what += fmt::format("; {} tokens/s",
                        format_count(std::llround(tokens_per_second(task.training, result))));
  }
  return bold(wrap(what, terminal.width), terminal.colour) + "\n";
}

std::string picture(const TrainingJob& training, const RunResult& result,
                    const Terminal& terminal) {
  const Schedule& program = training.program;
  TimelinePanel panel;
  panel.chunk_of_stage = program.placement.chunk_of_stage();
  panel.actions_of_rank = program.actions.lengths();
  panel.makespan_ns = result.metrics.makespan_ns;
  panel.replay = [&result](const SpanSink& sink) {
    const std::int64_t start_ns = result.median().start_ns;
    for (Span span : result.run.spans) {
      for (std::int64_t* time : {&span.start_ns, &span.end_ns}) *time -= start_ns;
      sink(span);
    }
  };
  return draw(panel, terminal);
}

std::string count_of_parameters(std::int64_t count) {
  if (count >= 1'000'000) return fmt::format("{:.1f} M", static_cast<double>(count) / 1e6);
  return format_count(count);
}

std::string recomputed_words(const Recompute& recompute) {
  if (!recompute.exists()) return "";
  if (recompute.blocks > 0) {
    return fmt::format("; first {} of each recomputed", plural(recompute.blocks, "block"));
  }
  const std::string what = recompute.full ? "activations" : recompute_words(recompute);
  return fmt::format("; {} recomputed", what);
}

std::string model_lines(const TrainingJob& training) {
  const Model& model = training.model;
  std::string out = fmt::format("model   {}: {}, hidden size {}, {} parameters\n",
                                printable(model.name), plural(model.blocks, "block"),
                                model.hidden_size, count_of_parameters(model.parameters()));
  out += fmt::format("        layers per virtual stage: {}{}\n", fmt::join(training.layout, ","),
                     recomputed_words(training.recompute));
  if (training.attention == Attention::fused && model.architecture != Architecture::mlp) {
    out += "        attention is fused: it keeps no scores\n";
  }
  if (training.precision != Number::float32) {
    out += fmt::format("        {}; gradients, and what the optimizer holds, in fp32\n",
                       precision_name(training.precision));
  }
  out += fmt::format("        {} of {} x {} tokens of {}\n",
                     plural(training.program.microbatches, "microbatch"), training.micro_batch_size,
                     training.sequence_length, printable(training.text.name()));
  return out;
}

// A report shows the first pipeline.
bool is_shown(const RankResult& rank) { return rank.at.data == 0 && rank.at.tensor == 0; }

std::string tensor_lines(const TrainingJob& training, const RunResult& result) {
  if (training.tensor_parallel == 1) return {};
  std::int64_t total_ns = 0;
  std::int64_t exposed_ns = 0;
  for (const RankResult& rank : result.ranks) {
    total_ns += rank.tensor.total_ns;
    exposed_ns += rank.tensor.exposed_ns();
  }
  const auto count = std::ssize(result.ranks);
  return fmt::format(
      "tensor  {} ranks have a shard of each layer{}; the first is shown\n"
      "        {} of exchanges per rank within its actions, {} of it during compute\n",
      training.tensor_parallel,
      training.sequence_parallel ? ", and their own tokens between layers" : "",
      format_time(total_ns / count), format_time((total_ns - exposed_ns) / count));
}

// Says which replica is shown, and what all of them split.
std::string replica_lines(const TrainingJob& training, const RunResult& result) {
  if (training.data_parallel == 1) return {};
  std::vector<std::size_t> shown;
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    if (is_shown(result.ranks[r])) shown.push_back(r);
  }
  constexpr std::array<std::string_view, 4> split{
      "nothing sharded", "optimizer states sharded", "gradients and optimizer states sharded",
      "weights, gradients and optimizer states sharded"};
  std::string out = fmt::format("replica 1 of {}: ranks {} of {}; {}", training.data_parallel,
                                fmt::join(shown, ", "), result.ranks.size(),
                                split[static_cast<std::size_t>(training.zero)]);
  if (training.shards() > 1 && training.shards() < training.data_parallel) {
    out += fmt::format(" over {}", training.shards());
  }
  std::int64_t total_ns = 0;
  std::int64_t hidden_ns = 0;
  for (const std::size_t r : shown) {
    total_ns += result.ranks[r].collectives.total_ns;
    hidden_ns += result.ranks[r].collectives.hidden_ns;
  }
  const auto count = static_cast<std::int64_t>(shown.size());
  return out + fmt::format("\n        {} of exchanges per rank, {} of it during compute\n",
                           format_time(total_ns / count), format_time(hidden_ns / count));
}

std::string loss_line(const RunResult& result) {
  const double first =
      result.warmup_losses.empty() ? result.losses.front() : result.warmup_losses.front();
  return fmt::format("loss    {:.4f} at first, {:.4f} at last, nats per token\n", first,
                     result.losses.back());
}

std::string run_lines(const TrainingJob& training, const RunResult& result) {
  std::string out = replica_lines(training, result) + tensor_lines(training, result);
  if (!training.costs) out += model_lines(training);
  out += fmt::format("run     {}; transport {}\n", result.run.about.device,
                     result.run.about.transport);
  const std::vector<std::int64_t> times = result.iteration_ns();
  const auto [fastest, slowest] = std::ranges::minmax_element(times);
  out += fmt::format("        {}, {} to {}; {} before not measured\n",
                     plural(std::ssize(times), "iteration"), format_time(*fastest),
                     format_time(*slowest), training.warmup_left());
  if (result.resumed_at) {
    out += fmt::format("        resumed from the checkpoint of iteration {}\n", *result.resumed_at);
  }
  if (training.accumulate > 1) {
    out += fmt::format("        a step every {}; one that ends with a step is shown\n",
                       plural(training.accumulate, "iteration"));
  }
  if (training.costs) return out;
  return out + loss_line(result);
}

std::string verification_lines(const TrainingJob& training, const RunResult& result) {
  if (!result.verification) return {};
  const Verification& verification = *result.verification;
  if (verification.bitwise) {
    return "verify  losses, gradients and weights equal one rank's bit for bit\n";
  }
  if (verification.is_right(training.library_sums)) {
    return fmt::format(
        "verify  losses and norms within {:.2g} of one rank's, relative, by a library's sums; "
        "gradients and weights within {:.2g} per token\n",
        verification.outcome_error, verification.max_abs_error);
  }
  return fmt::format(
      "verify  differs from one rank: largest error {:.3g}, relative {:.3g}, in {}\n",
      verification.max_abs_error, verification.max_rel_error, verification.worst);
}

}  // namespace

std::string report(const Task& task, const RunResult& result, const Terminal& terminal) {
  if (!result.has_iterations()) {
    const std::string what =
        fmt::format("{}: the checkpoint is from iteration {}, the last: nothing is left to do",
                    task.title, *result.resumed_at);
    return bold(wrap(what, terminal.width), terminal.colour) + "\n" + loss_line(result);
  }
  std::string sentences = bubble_lines(result.metrics) + critical_path_line(result.metrics) +
                          run_lines(task.training, result) +
                          verification_lines(task.training, result);
  const int processors = result.run.about.measured.processors;
  // Emulated ranks sleep, and so don't need a processor each.
  const auto ranks = std::ssize(result.ranks);
  if (!task.training.costs && ranks > processors) {
    sentences += fmt::format(
        "\n{} share {}: they take turns, so times and bubbles differ from those of "
        "as many devices.\n",
        plural(ranks, "rank"), plural(processors, "processor"));
  }
  if (const std::string taken = taken_line(result.run); !taken.empty()) sentences += "\n" + taken;
  std::vector<RankMemory> memory;
  for (const RankResult& rank : result.ranks) {
    if (is_shown(rank)) memory.push_back(rank.memory);
  }
  return verdict(task, result, terminal) + "\n" + picture(task.training, result, terminal) + "\n" +
         rank_text(result.metrics, terminal.width) + "\n" + memory_text(memory, terminal.width) +
         wrap(sentences, terminal.width);
}

std::string result_json(const Task& task, const RunResult& result) {
  const TrainingJob& training = task.training;
  Json json;
  json["format"] = "pipeexec-result";
  json["version"] = 1;
  describe(training.program, json);
  if (training.costs) {
    json["pace"] = pace_name(training.pace);
  } else {
    json["model"] = training.model.name;
    json["layout"] = training.layout;
    json["micro_batch_size"] = training.micro_batch_size;
    json["sequence_length"] = training.sequence_length;
    json["reduce"] = training.library_sums ? "library" : "ordered";
    json["global_batch"] =
        training.micro_batch_size * training.program.microbatches * training.data_parallel;
    json["seed"] = training.seed;
    json["learning_rate"] = training.learning_rate;
    json["recompute"] = recompute_name(training.recompute);
    json["attention"] = attention_name(training.attention);
    json["precision"] = precision_name(training.precision);
  }
  json["tensor_parallel"] = training.tensor_parallel;
  json["sequence_parallel"] = training.sequence_parallel;
  json["data_parallel"] = training.data_parallel;
  json["zero"] = training.zero;
  json["shard_over"] = training.shards();
  json["gather"] = training.gather ? Json(gather_name(*training.gather)) : Json(nullptr);
  json["bucket_bytes"] = training.bucket_bytes ? Json(*training.bucket_bytes) : Json(nullptr);
  json["device"] = result.run.about.device;
  json["transport"] = result.run.about.transport;
  json["processors"] = result.run.about.measured.processors;
  json["warmup"] = training.warmup;
  json["iterations"] = training.iterations;
  json["resumed_at"] = result.resumed_at;
  json["accumulate"] = training.accumulate;
  json["warmup_losses"] = result.warmup_losses;
  json["losses"] = result.losses;
  json["iteration_ns"] = nullptr;
  json["iteration_times_ns"] = result.iteration_ns();
  json["tokens_per_second"] = nullptr;
  json["bubble_fraction"] = {{"global", nullptr}, {"span", nullptr}};
  if (result.has_iterations()) {
    json["iteration_ns"] = result.median_ns();
    if (!training.costs) json["tokens_per_second"] = tokens_per_second(training, result);
    json["bubble_fraction"] = {{"global", result.metrics.global_bubble()},
                               {"span", result.metrics.span_bubble()}};
  }
  const auto has = [&](std::int64_t WorkingBytes::*bytes) {
    return std::ranges::any_of(
        result.ranks, [&](const RankResult& rank) { return rank.memory.peak.bytes.*bytes > 0; });
  };
  Json ranks = Json::array();
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const auto& [at, metrics, memory, taken_bytes, collectives, tensor] = result.ranks[r];
    ranks.push_back({{"rank", r},
                     {"pipeline", at.pipeline},
                     {"data", at.data},
                     {"tensor", at.tensor},
                     {"busy_ns", metrics.busy_ns},
                     {"bubble_ns", bubble_json(metrics.bubble)},
                     {"collective_ns", collectives.total_ns},
                     {"exposed_collective_ns", collectives.exposed_ns()},
                     {"tensor_exchange_ns", tensor.total_ns},
                     {"exposed_tensor_exchange_ns", tensor.exposed_ns()},
                     {"peak_memory_bytes", memory.total()},
                     {"peak_action", to_text(memory.peak.action)},
                     {"peak_activation_chunks", metrics.peak_activation_chunks},
                     {"memory_bytes", memory_bytes_json(memory)},
                     {"taken_from_gpu_bytes", nullptr},
                     {"clock_offset_ns", result.clocks[r].offset_ns()},
                     {"clock_uncertainty_ns", result.clocks[r].uncertainty_ns()}});
    Json& bytes = ranks.back()["memory_bytes"];
    if (has(&WorkingBytes::unsharded)) bytes["unsharded"] = memory.peak.bytes.unsharded;
    if (has(&WorkingBytes::workspace)) bytes["workspace"] = memory.peak.bytes.workspace;
    if (taken_bytes > 0) ranks.back()["taken_from_gpu_bytes"] = taken_bytes;
  }
  json["ranks"] = std::move(ranks);
  json["verify"] = nullptr;
  if (result.verification) {
    json["verify"] = {{"bitwise", result.verification->bitwise},
                      {"max_abs_error", result.verification->max_abs_error},
                      {"max_rel_error", result.verification->max_rel_error}};
    if (training.library_sums) {
      json["verify"]["outcome_rel_error"] = result.verification->outcome_error;
    }
  }
  return json.dump(2) + "\n";
}

std::string device_list() {
  std::string out = "devices\n";
  for (const DeviceInfo& device : known_devices()) {
    out +=
        fmt::format("  {:<8} {}\n", device.name,
                    device.left_out.empty() ? device.description : "not here: " + device.left_out);
  }
  out += "transports\n";
  for (const TransportInfo& transport : known_transports()) {
    out += fmt::format(
        "  {:<8} {}\n", transport.name,
        transport.left_out.empty() ? transport.what : "not here: " + transport.left_out);
  }
  return out;
}

}  // namespace pipesim::exec
