#include "sim/import/torchtitan_flavors.h"

#include <fmt/format.h>

#include "sim/import/imported.h"
#include "sim/import/torchtitan.h"

namespace pipesim {
namespace {

constexpr Flavor deepseek(std::string_view flavor, std::int64_t blocks, std::int64_t hidden_size,
                          std::int64_t heads, std::int64_t mlp_size, std::int64_t vocabulary,
                          std::int64_t query_rank) {
  return {.name = "deepseek_v3",
          .flavor = flavor,
          .blocks = blocks,
          .hidden_size = hidden_size,
          .heads = heads,
          .kv_heads = heads,
          .mlp_size = mlp_size,
          .vocabulary_size = vocabulary,
          .rotary_base = 10'000,
          .dense_first = 1,
          .query_rank = query_rank,
          .kv_rank = 512,
          .has_flex = flavor != "debugmodel"};
}

constexpr Flavor with_experts(Flavor flavor, std::int64_t experts, std::int64_t per_token,
                              std::int64_t size, std::int64_t shared, std::int64_t groups = 1,
                              std::int64_t groups_per_token = 0) {
  flavor.experts = experts;
  flavor.experts_per_token = per_token;
  flavor.expert_size = size;
  flavor.shared_size = shared;
  flavor.expert_groups = groups;
  flavor.groups_per_token = groups_per_token;
  return flavor;
}

constexpr Flavor after_dense(Flavor flavor, std::int64_t blocks) {
  flavor.dense_first = blocks;
  return flavor;
}

constexpr Flavor llama4(std::string_view flavor, std::int64_t experts, std::int64_t every,
                        std::int64_t chunk) {
  const bool is_small = experts == 8;
  return {.name = "llama4",
          .flavor = flavor,
          .blocks = is_small ? 6 : 48,
          .hidden_size = is_small ? 256 : 5120,
          .heads = is_small ? 16 : 40,
          .kv_heads = is_small ? 16 : 8,
          .mlp_size = is_small ? 768 : 16384,
          .vocabulary_size = is_small ? 2048 : 202048,
          .rotary_base = 500'000,
          .experts = experts,
          .expert_size = is_small ? 512 : 8192,
          .shared_size = is_small ? 512 : 8192,
          .experts_every = every,
          .chunk = chunk,
          .has_flex = chunk > 0};
}

constexpr Flavor gpt_oss(std::string_view flavor, std::int64_t blocks, std::int64_t hidden_size,
                         std::int64_t experts) {
  return {.name = "gpt_oss",
          .flavor = flavor,
          .blocks = blocks,
          .hidden_size = hidden_size,
          .heads = 64,
          .kv_heads = 8,
          .mlp_size = 2880,
          .vocabulary_size = 201088,
          .rotary_base = 150'000,
          .head_size = 64,
          .experts = experts,
          .experts_per_token = 4,
          .expert_size = 2880,
          .window = 128,
          .has_flex = true};
}

constexpr Flavor flavors[] = {
    {"llama3", "debugmodel", 6, 256, 16, 16, 768, 2048, 500'000},
    {"llama3", "8B", 32, 4096, 32, 8, 14336, 128256, 500'000},
    {"llama3", "70B", 80, 8192, 64, 8, 28672, 128256, 500'000},
    {"llama3", "405B", 126, 16384, 128, 8, 53248, 128256, 500'000},
    llama4("debugmodel", 8, 2, 0),
    llama4("17bx16e", 16, 1, 0),
    llama4("17bx128e", 128, 2, 0),
    llama4("debugmodel_irope", 8, 2, 256),
    llama4("17bx16e_irope", 16, 1, 8192),
    llama4("17bx128e_irope", 128, 2, 8192),
    {"qwen3", "debugmodel", 8, 256, 16, 8, 3072, 2048, 1'000'000, 128, true},
    {"qwen3", "0.6B", 28, 1024, 16, 8, 3072, 151936, 1'000'000, 128, true},
    {"qwen3", "1.7B", 28, 2048, 16, 8, 6144, 151936, 1'000'000, 128, true},
    {"qwen3", "4B", 36, 2560, 32, 8, 9728, 151936, 1'000'000, 128, true},
    {"qwen3", "8B", 36, 4096, 32, 8, 12288, 151936, 1'000'000, 128},
    {"qwen3", "14B", 40, 5120, 40, 8, 17408, 151936, 1'000'000, 128},
    {"qwen3", "32B", 64, 5120, 64, 8, 25600, 151936, 1'000'000, 128},
    {"qwen3", "debugmodel_moe", 8, 256, 16, 8, 768, 2048, 1'000'000, 128, false, 64, 8, 768},
    {"qwen3", "30B-A3B", 48, 2048, 32, 4, 768, 151936, 1'000'000, 128, false, 128, 8, 768},
    {"qwen3", "235B-A22B", 94, 4096, 64, 4, 1536, 151936, 5'000'000, 128, false, 128, 8, 1536},
    with_experts(deepseek("debugmodel", 6, 256, 16, 1024, 2048, 0), 8, 3, 256, 512),
    with_experts(deepseek("16B", 27, 2048, 16, 10944, 102400, 0), 64, 6, 1408, 2816),
    with_experts(deepseek("236B", 60, 5120, 128, 12288, 102400, 1536), 160, 6, 1536, 3072, 8, 3),
    after_dense(with_experts(deepseek("671B", 61, 7168, 128, 18432, 129280, 1536), 256, 8, 2048,
                             2048, 8, 4),
                3),
    gpt_oss("debugmodel", 4, 256, 8),
    gpt_oss("20b", 24, 2880, 32),
    gpt_oss("120b", 36, 2880, 128),
};

std::string_view plain_flavor(std::string_view flavor) {
  for (const std::string_view end : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"}) {
    if (flavor.ends_with(end)) return flavor.substr(0, flavor.size() - end.size());
  }
  return flavor;
}

}  // namespace

const Flavor* find_flavor(std::string_view name, std::string_view flavor) {
  for (const Flavor& known : flavors) {
    if (known.name == name && known.flavor == plain_flavor(flavor)) return &known;
  }
  return nullptr;
}

Model model_of(const Flavor& flavor, std::int64_t sequence) {
  Model model{.name = fmt::format("{}-{}", flavor.name, flavor.flavor)};
  model.shape_as(Architecture::llama);
  model.blocks = flavor.blocks;
  model.hidden_size = flavor.hidden_size;
  model.heads = flavor.heads;
  model.kv_heads = flavor.kv_heads;
  model.mlp_size = flavor.mlp_size;
  model.vocabulary_size = flavor.vocabulary_size;
  model.rotary_base = flavor.rotary_base;
  model.max_sequence_length = sequence;
  model.tied_head = flavor.tied;
  model.experts = flavor.experts;
  model.experts_per_token = flavor.experts_per_token;
  model.expert_size = flavor.expert_size;
  model.shared_size = flavor.shared_size;
  model.expert_groups = flavor.expert_groups;
  model.groups_per_token = flavor.groups_per_token;
  if (flavor.name == "qwen3") model.qk_norm = QkNorm::heads;
  if (flavor.name == "gpt_oss") {
    model.biases = {.qkv = true, .attention_output = true, .mlp = true, .router = true};
    model.has_sinks = true;
  }
  if (flavor.head_size * flavor.heads != flavor.hidden_size && flavor.head_size > 0) {
    model.own_head_size = flavor.head_size;
  }
  if (flavor.kv_rank > 0) {
    model.latent = {.query_rank = flavor.query_rank,
                    .kv_rank = flavor.kv_rank,
                    .plain_size = 128,
                    .rotary_size = 64,
                    .value_size = 128};
  }
  model.kinds.clear();
  for (std::int64_t i = 0; i < flavor.blocks; ++i) {
    BlockKind& kind = model.kinds.emplace_back();
    kind.has_experts =
        flavor.experts > 1 && i >= flavor.dense_first && (i + 1) % flavor.experts_every == 0;
    if (flavor.window > 0 && i % 2 == 0) kind.window = flavor.window;
    if (flavor.chunk > 0 && i % 4 != 0) kind.chunk = flavor.chunk;
  }
  model.kinds = shortest_kinds(model);
  return model;
}

TorchtitanName torchtitan_name(const Model& model) {
  for (const Flavor& flavor : flavors) {
    Model known = model_of(flavor, model.max_sequence_length);
    known.name = model.name;
    if (model.blocks == known.blocks && shortest_kinds(model) == known.kinds) {
      known.kinds = model.kinds;
    }
    if (known == model) return {std::string(flavor.name), std::string(flavor.flavor)};
  }
  return {};
}

}  // namespace pipesim
