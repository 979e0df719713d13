#include "sim/cost/estimate/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

template <typename T>
T parse_choice(std::string_view flag, std::string_view what, std::string_view text,
               std::string_view (*name_of)(T), std::initializer_list<T> all) {
  std::vector<std::string> names;
  for (const T one : all) {
    if (text == name_of(one)) return one;
    names.emplace_back(name_of(one));
  }
  throw input_error(
      fmt::format("{}: {}", flag, unknown_name(std::string(what), std::string(text), names)));
}

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

// Refuses a sequence length that `parts` don't divide.
[[noreturn]] void refuse_length(const Training& training, const Model& model, std::int64_t parts,
                                const std::string& rule) {
  const std::int64_t below = training.sequence_length / parts * parts;
  std::vector<std::int64_t> numbers;
  if (below > 0) numbers.push_back(below);
  // Rotary positions have no limit.
  if (!model.has_positions() || below + parts <= model.max_sequence_length) {
    numbers.push_back(below + parts);
  }
  refuse("--sequence-length", training.sequence_length, numbers, rule);
}

// Of all widths that tensor parallelism splits, those of routed experts aside, the largest common
// divisor; 0 if there are none.
std::int64_t split_mlp_size(const Model& model) {
  std::int64_t size = model.shared_size;
  const bool has_dense =
      std::ranges::any_of(model.kinds, [](const BlockKind& kind) { return !kind.has_experts; });
  return has_dense ? std::gcd(size, model.mlp_size) : size;
}

// Whether attention of some blocks looks back over a part of such a sequence.
bool sees_parts(const Model& model, std::int64_t length) {
  return std::ranges::any_of(model.kinds, [&](const BlockKind& kind) {
    return (kind.window && *kind.window < length) || (kind.chunk && *kind.chunk < length);
  });
}

[[noreturn]] void refuse_flag(std::string_view flag, std::int64_t value, const std::string& why) {
  throw input_error(fmt::format("{} {}: {}", flag, value, why));
}

void check_experts(const Training& training, const Model& model) {
  const std::int64_t ranks = training.expert_parallel;
  const std::int64_t parts = training.split_experts();
  constexpr std::string_view flag = "--expert-parallel";
  if (!model.has_experts()) {
    if (ranks > 1) refuse_flag(flag, ranks, fmt::format("{} has no experts; omit it", model.name));
    if (training.expert_tensor_parallel) {
      refuse_flag("--expert-tensor-parallel", parts,
                  fmt::format("{} has no experts; omit it", model.name));
    }
    return;
  }
  check_expert_load(training.expert_load, model);
  if (training.overlaps_experts && (training.recompute.full || training.recompute.experts)) {
    throw input_error(fmt::format(
        "--overlap-experts: what --recompute {} makes again has exchanges of its own; recompute "
        "other parts, such as activation",
        recompute_name(training.recompute)));
  }
  constexpr std::string_view parts_flag = "--expert-tensor-parallel";
  const std::int64_t all = std::int64_t{training.tensor_parallel} * training.replicas();
  const auto valid = [&](std::int64_t whole, std::int64_t others) {
    std::vector<std::int64_t> numbers = divisors(whole);
    std::erase_if(numbers, [&](std::int64_t n) { return all % (n * others) != 0; });
    return numbers;
  };
  if (model.expert_size % parts != 0) {
    refuse(parts_flag, parts, valid(model.expert_size, ranks),
           fmt::format("does not divide an expert_size of {}", model.expert_size));
  }
  if (model.experts % ranks != 0) {
    refuse(
        flag, ranks, valid(model.experts, parts),
        fmt::format("does not divide the {} of {}", plural(model.experts, "expert"), model.name));
  }
  if (all % (ranks * parts) != 0) {
    const std::string rule = fmt::format(
        "experts are spread over the {} tensor-parallel x {} context-parallel x {} data-parallel "
        "ranks of a pipeline rank, and {} x {} that split each expert do not divide these {}",
        training.tensor_parallel, training.context_parallel, training.data_parallel, ranks, parts,
        all);
    const std::vector<std::int64_t> numbers = valid(model.experts, parts);
    if (!numbers.empty() && ranks > 1) refuse(flag, ranks, numbers, rule);
    refuse(parts_flag, parts, valid(model.expert_size, ranks), rule);
  }
  const bool is_spread = ranks > 1 || parts != training.tensor_parallel;
  if (training.tensor_parallel > 1 && is_spread && !training.sequence_parallel) {
    refuse_flag(ranks > 1 ? flag : parts_flag, ranks > 1 ? ranks : parts,
                "tensor-parallel ranks must have tokens of their own to send to experts; give "
                "--sequence-parallel");
  }
}

}  // namespace

ContextExchange usual_context_exchange(const Model& model, std::int64_t sequence_length) {
  if (model.has_sinks || model.latent) return ContextExchange::all_to_all;
  return sees_parts(model, sequence_length) ? ContextExchange::gather : ContextExchange::ring;
}

void check_context(const Training& training, const Model& model) {
  const std::int64_t ranks = training.context_parallel;
  constexpr std::string_view flag = "--context-parallel";
  if (ranks == 1) return;
  if (!model.is_decoder()) {
    refuse_flag(
        flag, ranks,
        fmt::format("the layers of {} have no attention to split; keep it at 1", model.name));
  }
  if (training.attention != Attention::fused) {
    refuse_flag(flag, ranks, "ranks exchange parts of fused attention; give --attention fused");
  }
  const std::int64_t length = training.sequence_length;
  if (training.context_exchange == ContextExchange::all_to_all) {
    const std::int64_t split = training.tensor_parallel;
    const auto fits = [&](std::int64_t n) {
      return model.heads / split % n == 0 && model.kv_heads % split == 0 &&
             model.kv_heads / split % n == 0;
    };
    if (!fits(ranks)) {
      std::vector<std::int64_t> valid = divisors(std::max<std::int64_t>(1, model.heads / split));
      std::erase_if(valid, [&](std::int64_t n) { return !fits(n); });
      refuse(flag, ranks, valid,
             fmt::format("--context-parallel-type a2a shares out heads, and {} has {} of queries "
                         "and {} of keys and values on a tensor-parallel rank; ring and gather "
                         "share out none",
                         model.name, model.heads / split,
                         std::max<std::int64_t>(1, model.kv_heads / split)));
    }
    if (length % ranks != 0) {
      refuse_length(training, model, ranks,
                    fmt::format("{} context-parallel ranks share it", ranks));
    }
    return;
  }
  // Both halves of the work of a causal sequence are dealt out as pairs of chunks.
  if (length % (2 * ranks) != 0) {
    const std::int64_t split = training.sequence_parallel ? training.tensor_parallel : 1;
    refuse_length(training, model, ranks * std::lcm<std::int64_t>(2, split),
                  fmt::format("{} context-parallel ranks share 2 chunks each of it", ranks));
  }
  if (training.context_exchange == ContextExchange::ring && sees_parts(model, length)) {
    throw input_error(fmt::format(
        "--context-parallel-type ring: attention of {} looks back over a part of the sequence, "
        "which no ring does; give gather or a2a",
        model.name));
  }
  if (model.has_sinks && training.context_exchange != ContextExchange::all_to_all) {
    throw input_error(fmt::format(
        "--context-parallel-type {}: attention of {} has sinks, which only a2a does; give a2a",
        context_exchange_name(training.context_exchange), model.name));
  }
}

std::string_view context_exchange_name(ContextExchange exchange) {
  switch (exchange) {
    case ContextExchange::ring: return "ring";
    case ContextExchange::gather: return "gather";
    case ContextExchange::all_to_all: return "a2a";
  }
  return {};
}

ContextExchange parse_context_exchange(std::string_view text) {
  return parse_choice(
      "--context-parallel-type", "exchange", text, context_exchange_name,
      {ContextExchange::ring, ContextExchange::gather, ContextExchange::all_to_all});
}

std::string_view dispatch_name(Dispatch dispatch) {
  switch (dispatch) {
    case Dispatch::all_to_all: return "alltoall";
    case Dispatch::all_gather: return "allgather";
    case Dispatch::deduplicated: return "deduplicated";
  }
  return {};
}

Dispatch parse_dispatch(std::string_view text) {
  return parse_choice("--expert-dispatch", "dispatch", text, dispatch_name,
                      {Dispatch::all_to_all, Dispatch::all_gather, Dispatch::deduplicated});
}

double most_pairs_of_rank(const BlockKind& kind, std::int64_t length, std::int64_t ranks) {
  const std::int64_t chunk = length / (2 * ranks);
  // Of the first `end` tokens.
  const auto up_to = [&](std::int64_t end) { return kind.pairs(end); };
  const auto of_chunk = [&](std::int64_t index) {
    return up_to((index + 1) * chunk) - up_to(index * chunk);
  };
  double most = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    most = std::max(most, of_chunk(rank) + of_chunk(2 * ranks - 1 - rank));
  }
  return most;
}

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
  // A cluster's ranks that are more than heads of keys and values have copies of them.
  const auto divides_kv = [&](std::int64_t n) {
    return model.kv_heads % n == 0 || (cluster != nullptr && n % model.kv_heads == 0);
  };
  const std::int64_t mlp_size = split_mlp_size(model);
  const auto divides = [&](std::int64_t n) {
    return model.heads % n == 0 && divides_kv(n) && mlp_size % n == 0 &&
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
        !whole(model.heads) ? plural(model.heads, "head")
        : !divides_kv(t)    ? plural(model.kv_heads, "head") + " of keys and values"
        : !whole(mlp_size)  ? fmt::format("an mlp_size of {}", mlp_size)
                            : fmt::format("a vocabulary of {}", model.vocabulary_size);
    refuse(flag, t, valid(), fmt::format("does not divide {} of {}", what, model.name));
  }
  if (!fits_nodes(t)) {
    refuse(flag, t, valid(),
           fmt::format("its groups would straddle nodes of {} of {}", plural(per_node, "device"),
                       cluster->name));
  }
  const std::int64_t parts = t * training.context_parallel;
  if (training.sequence_parallel && training.sequence_length % parts != 0) {
    refuse_length(
        training, model, parts,
        fmt::format("--sequence-parallel splits it over {} ranks, which must divide it", parts));
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
    if (over < 1 || training.replicas() % over != 0) {
      refuse("--shard-over", over, divisors(training.replicas()),
             fmt::format("does not divide {}", plural(training.replicas(), "replica")));
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
  const bool is_alone = !training.has_replicas();
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
  at_least_one("--context-parallel", training.context_parallel);
  at_least_one("--expert-parallel", training.expert_parallel);
  at_least_one("--expert-tensor-parallel", training.split_experts());
  // The largest array of a microbatch, experts' copies included.
  const double widest =
      static_cast<double>(std::max({model.hidden_size, model.attention_size(), model.widest_mlp(),
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
  check_recompute(training.recompute, model);
  check_shards(training, model, &cluster);
  check_context(training, model);
  check_experts(training, model);
  require_rate(cluster.device, training.precision);
  check_replicas(training);
  const std::int64_t devices = training.devices();
  require_devices(
      cluster, devices,
      fmt::format("{} x {} tensor-parallel{} x {} data-parallel are {}",
                  plural(training.pipeline_parallel, "pipeline rank"), training.tensor_parallel,
                  training.context_parallel > 1
                      ? fmt::format(" x {} context-parallel", training.context_parallel)
                      : "",
                  training.data_parallel, plural(devices, "device")));
}

}  // namespace pipesim
