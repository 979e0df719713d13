#include "sim/cost/estimate/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Ascending.
std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  for (std::int64_t n = 1; n <= number / n; ++n) {
    if (number % n != 0) continue;
    low.push_back(n);
    if (n != number / n) high.push_back(number / n);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// `valid` ascends and does not contain the value: names its neighbours, "4 and 8".
[[noreturn]] void refuse(std::string_view flag, std::int64_t value,
                         const std::vector<std::int64_t>& valid, const std::string& rule) {
  const auto above = std::ranges::upper_bound(valid, value);
  std::string nearest;
  if (above != valid.begin()) nearest = std::to_string(*std::prev(above));
  if (above != valid.end()) nearest += (nearest.empty() ? "" : " and ") + std::to_string(*above);
  throw input_error(fmt::format("{} {}: {}; nearest valid: {}", flag, value, rule,
                                nearest.empty() ? "none" : nearest));
}

}  // namespace

std::string_view gather_name(Gather gather) {
  switch (gather) {
    case Gather::window: return "window";
    case Gather::pass: return "pass";
    case Gather::once: return "once";
  }
  return {};
}

void check_shards(const Training& training, const Model& model, const Cluster* cluster) {
  const std::int64_t t = training.tensor_parallel;
  if (t == 1) return;
  if (model.is_listed() || model.architecture == Architecture::mlp) {
    throw input_error(
        fmt::format("--tensor-parallel {}: the layers of {} can't be split over "
                    "ranks; keep it at 1",
                    t, model.name));
  }
  const std::int64_t per_node = cluster == nullptr ? 1 : cluster->devices_per_node;
  const auto fits_nodes = [&](std::int64_t n) { return per_node % n == 0 || n % per_node == 0; };
  const auto divides = [&](std::int64_t n) {
    return model.heads % n == 0 && model.kv_heads % n == 0 && model.mlp_size % n == 0 &&
           (cluster != nullptr || model.vocabulary_size % n == 0);
  };
  const auto valid = [&] {
    std::vector<std::int64_t> numbers = divisors(model.heads);
    std::erase_if(numbers, [&](std::int64_t n) { return !divides(n) || !fits_nodes(n); });
    return numbers;
  };
  const std::string_view flag = "--tensor-parallel";
  if (!divides(t)) {
    const auto whole = [&](std::int64_t count) { return count % t == 0; };
    const std::string what =
        !whole(model.heads)      ? plural(model.heads, "head")
        : !whole(model.kv_heads) ? plural(model.kv_heads, "head") + " of keys and values"
        : !whole(model.mlp_size) ? fmt::format("an mlp_size of {}", model.mlp_size)
                                 : fmt::format("a vocabulary of {}", model.vocabulary_size);
    refuse(flag, t, valid(), fmt::format("does not divide {} of {}", what, model.name));
  }
  if (!fits_nodes(t)) {
    refuse(flag, t, valid(),
           fmt::format("its groups would straddle nodes of {} of {}", plural(per_node, "device"),
                       cluster->name));
  }
  if (training.sequence_parallel && training.sequence_length % t != 0) {
    const std::int64_t below = training.sequence_length / t * t;
    std::vector<std::int64_t> numbers;
    if (below > 0) numbers.push_back(below);
    // Rotary positions have no limit.
    if (!model.has_positions() || below + t <= model.max_sequence_length)
      numbers.push_back(below + t);
    refuse("--sequence-length", training.sequence_length, numbers,
           fmt::format("--sequence-parallel splits it over {} ranks, which must divide it", t));
  }
}

std::string_view attention_name(Attention attention) {
  return attention == Attention::fused ? "fused" : "unfused";
}

Attention parse_attention(std::string_view text) {
  if (text == "flash") return Attention::fused;
  for (const Attention attention : {Attention::unfused, Attention::fused}) {
    if (text == attention_name(attention)) return attention;
  }
  throw input_error(fmt::format(
      "--attention: {}", unknown_name("attention", std::string(text), {"unfused", "fused"})));
}

void check_replicas(const Training& training) {
  if (training.zero < 0 || training.zero > 3) {
    throw input_error(
        fmt::format("--zero {}: the stages are 0 (nothing sharded), 1 (optimizer), "
                    "2 (and gradients) and 3 (and weights)",
                    training.zero));
  }
  if (training.shard_over) {
    const std::int64_t over = *training.shard_over;
    if (over < 1 || training.data_parallel % over != 0) {
      refuse("--shard-over", over, divisors(training.data_parallel),
             fmt::format("does not divide {}", plural(training.data_parallel, "replica")));
    }
  }
}

double hidden_exchange(const Training& training, const SoftwareSpec& software) {
  if (!training.asynchronous_reduction) return 0;
  return training.hidden_exchange.value_or(training.sequence_parallel ? software.hidden_exchange
                                                                      : 0);
}

std::int64_t usual_optimizer_bytes(const Training& training, const SoftwareSpec& software) {
  const bool is_wide = software.kernels && software.kernels->keeps_wide_weights;
  const std::int64_t usual = is_wide || bytes_of(training.precision) == 4 ? 8 : 12;
  return software.kernels ? software.kernels->optimizer_kept.value_or(usual) : usual;
}

std::vector<std::string> drop_without_effect(Training& training) {
  std::vector<std::string> notes;
  const auto drop = [&](bool given, const std::string& flag, std::string_view why) {
    if (given) notes.push_back(fmt::format("{} has no effect: {}", flag, why));
  };
  const bool is_alone = training.data_parallel == 1;
  const auto among_several = [&](std::string_view why) {
    return is_alone ? "there is one replica" : why;
  };
  if (is_alone) {
    drop(training.zero > 0, fmt::format("--zero {}", training.zero), among_several({}));
    drop(training.bucket_bytes.has_value(), "--bucket-bytes", among_several({}));
    training.zero = 0;
    training.bucket_bytes.reset();
  }
  if (training.zero != 3 && training.gather) {
    drop(true, fmt::format("--gather {}", gather_name(*training.gather)),
         among_several("without --zero 3 every replica keeps all weights"));
    training.gather.reset();
  }
  if (training.zero == 0) {
    drop(training.shard_over.has_value(), "--shard-over",
         among_several("replicas shard nothing with --zero 0"));
    training.shard_over.reset();
  }
  if (training.tensor_parallel == 1) {
    drop(training.sequence_parallel, "--sequence-parallel", "there is one tensor-parallel rank");
    training.sequence_parallel = false;
  }
  return notes;
}

void check(const Training& training, const Model& model, const Cluster& cluster) {
  const auto at_least_one = [](std::string_view flag, std::int64_t value) {
    if (value < 1) throw input_error(fmt::format("{} {}: must be at least 1", flag, value));
  };
  at_least_one("--micro-batch-size", training.micro_batch_size);
  at_least_one("--sequence-length", training.sequence_length);
  at_least_one("--tensor-parallel", training.tensor_parallel);
  at_least_one("--data-parallel", training.data_parallel);
  // The largest array of a microbatch, experts' copies included.
  const double widest =
      static_cast<double>(std::max({model.hidden_size, model.attention_size(), model.mlp_size,
                                    model.vocabulary_size, std::int64_t{1}}));
  const double values = static_cast<double>(training.micro_batch_size) *
                        static_cast<double>(training.sequence_length) *
                        static_cast<double>(model.experts_per_token) * widest;
  if (values > static_cast<double>(max_bytes)) {
    throw input_error(
        fmt::format("--micro-batch-size {}, --sequence-length {}: {} has {:g} values between two "
                    "layers then, and at most {:g} are valid; use fewer",
                    training.micro_batch_size, training.sequence_length, model.name, values,
                    static_cast<double>(max_bytes)));
  }
  // Only tables of positions have a limit.
  const bool has_table = !model.is_listed() && model.has_positions();
  if (has_table && training.sequence_length > model.max_sequence_length) {
    throw input_error(
        fmt::format("--sequence-length {}: {} has positions for {}; the longest valid: {}",
                    training.sequence_length, model.name,
                    plural(model.max_sequence_length, "token"), model.max_sequence_length));
  }
  if (model.window && training.sequence_length > *model.window) {
    throw input_error(fmt::format(
        "--sequence-length {}: attention of {} looks back over only {}, and such "
        "windows are not modelled; the longest valid: {}",
        training.sequence_length, model.name, plural(*model.window, "token"), *model.window));
  }
  check_recompute(training.recompute, model);
  check_shards(training, model, &cluster);
  require_rate(cluster.device, training.precision);
  check_replicas(training);
  const std::int64_t devices = training.devices();
  require_devices(
      cluster, devices,
      fmt::format("{} x {} tensor-parallel x {} data-parallel are {}",
                  plural(training.pipeline_parallel, "pipeline rank"), training.tensor_parallel,
                  training.data_parallel, plural(devices, "device")));
}

}  // namespace pipesim
