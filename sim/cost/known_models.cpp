// The models known by name: those below, with sizes in the order of each paper's table, and the
// files in models.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/cost/model.h"
#include "sim/cost/model_presets.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

Model gpt(const std::string& name, std::int64_t blocks, std::int64_t hidden_size,
          std::int64_t heads) {
  Model model{.name = name};
  model.blocks = blocks;
  model.hidden_size = hidden_size;
  model.heads = heads;
  model.kv_heads = heads;
  model.mlp_size = 4 * hidden_size;
  model.dropout_ppm = 100'000;
  return model;
}

Model gpt2(const std::string& name, std::int64_t blocks, std::int64_t hidden_size,
           std::int64_t heads) {
  Model model = gpt(name, blocks, hidden_size, heads);
  model.vocabulary_size = 50257;
  model.max_sequence_length = 1024;
  return model;
}

// As in Megatron-LM: a vocabulary of 50257 padded so that devices share it evenly.
Model megatron(const std::string& name, std::int64_t heads, std::int64_t hidden_size,
               std::int64_t blocks) {
  Model model = gpt(name, blocks, hidden_size, heads);
  model.vocabulary_size = 51200;
  model.max_sequence_length = 2048;
  return model;
}

Model llama(const std::string& name, std::int64_t blocks, std::int64_t hidden_size,
            std::int64_t mlp_size, std::int64_t heads, std::int64_t kv_heads,
            std::int64_t vocabulary_size, std::int64_t max_sequence_length) {
  Model model{.name = name};
  model.shape_as(Architecture::llama);
  model.blocks = blocks;
  model.hidden_size = hidden_size;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.mlp_size = mlp_size;
  model.vocabulary_size = vocabulary_size;
  model.max_sequence_length = max_sequence_length;
  model.tied_head = false;
  return model;
}

// The Llama team, 2024, "The Llama 3 herd of models", arXiv 2407.21783, table 3, and the published
// configurations, with the sequence length of most of the training.
Model llama3(const std::string& name, std::int64_t blocks, std::int64_t hidden_size,
             std::int64_t mlp_size, std::int64_t heads) {
  Model model = llama(name, blocks, hidden_size, mlp_size, heads, 8, 128256, 8192);
  model.rotary_base = 500'000;
  return model;
}

// Yang et al., 2024, "Qwen2 technical report", arXiv 2407.10671, table 1, and the published
// configurations, whose vocabularies are padded.
Model qwen2(const std::string& name, std::int64_t blocks, std::int64_t hidden_size,
            std::int64_t mlp_size, std::int64_t heads, std::int64_t kv_heads,
            std::int64_t vocabulary_size) {
  Model model = llama(name, blocks, hidden_size, mlp_size, heads, kv_heads, vocabulary_size, 32768);
  model.rotary_base = 1'000'000;
  model.biases.qkv = true;
  return model;
}

Model qwen2_small() {
  Model model = qwen2("qwen2-0.5b", 24, 896, 4864, 14, 2, 151936);
  model.tied_head = true;
  return model;
}

Model mlp_mini() {
  Model model{.name = "mlp-mini"};
  model.shape_as(Architecture::mlp);
  model.heads = 1;
  model.kv_heads = 1;
  model.mlp_size = model.hidden_size;
  model.tied_head = false;
  return model;
}

// Jiang et al., 2024, "Mixtral of Experts", arXiv 2401.04088, table 1, and the published
// configuration.
Model mixtral() {
  Model model = llama("mixtral-8x7b", 32, 4096, 14336, 32, 8, 32000, 32768);
  model.rotary_base = 1'000'000;
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_size = model.mlp_size;
  model.kinds = {BlockKind{.has_experts = true}};
  return model;
}

const std::vector<Model>& models_in_code() {
  static const std::vector<Model> models{
      gpt("gpt-mini", 8, 128, 4),
      llama("llama-mini", 8, 128, 352, 4, 2, 256, 256),
      mlp_mini(),
      // Radford et al., 2019, "Language models are unsupervised multitask learners".
      gpt2("gpt2-small", 12, 768, 12),
      gpt2("gpt2-medium", 24, 1024, 16),
      gpt2("gpt2-large", 36, 1280, 20),
      gpt2("gpt2-xl", 48, 1600, 25),
      // Brown et al., 2020, "Language models are few-shot learners", arXiv 2005.14165,
      // table 2.1, with Megatron-LM's vocabulary. Where the table contradicts itself (a width
      // of 2048 from 24 heads of 128, 5140 from 40), there are 16 heads, and the width is 5120.
      // The largest is the same in both papers below.
      megatron("gpt3-1.3b", 16, 2048, 24),
      megatron("gpt3-6.7b", 32, 4096, 32),
      megatron("gpt3-13b", 40, 5120, 40),
      megatron("gpt3-175b", 96, 12288, 96),
      // Narayanan et al., 2021, "Efficient large-scale language model training on GPU
      // clusters using Megatron-LM", arXiv 2104.04473, table 1.
      megatron("megatron-1.7b", 24, 2304, 24),
      megatron("megatron-3.6b", 32, 3072, 30),
      megatron("megatron-7.5b", 32, 4096, 36),
      megatron("megatron-18.4b", 48, 6144, 40),
      megatron("megatron-39.1b", 64, 8192, 48),
      megatron("megatron-76b", 80, 10240, 60),
      megatron("megatron-145b", 96, 12288, 80),
      megatron("megatron-310b", 128, 16384, 96),
      megatron("megatron-530b", 128, 20480, 105),
      megatron("megatron-1t", 160, 25600, 128),
      // Korthikanti et al., 2022, "Reducing activation recomputation in large transformer
      // models", arXiv 2205.05198, table 3, which also has the last two and gpt3-175b.
      megatron("megatron-22b", 64, 6144, 48),
      // Touvron et al., 2023, "Llama 2: open foundation and fine-tuned chat models",
      // arXiv 2307.09288, and the published configurations.
      llama("llama-2-7b", 32, 4096, 11008, 32, 32, 32000, 4096),
      llama("llama-2-13b", 40, 5120, 13824, 40, 40, 32000, 4096),
      llama("llama-2-70b", 80, 8192, 28672, 64, 8, 32000, 4096),
      llama3("llama-3-8b", 32, 4096, 14336, 32),
      llama3("llama-3-70b", 80, 8192, 28672, 64),
      llama3("llama-3-405b", 126, 16384, 53248, 128),
      // Jiang et al., 2023, "Mistral 7B", arXiv 2310.06825, table 1. Attention looks back over the
      // whole sequence here, over 4096 positions in the paper.
      llama("mistral-7b", 32, 4096, 14336, 32, 8, 32000, 8192),
      mixtral(),
      qwen2_small(),
      qwen2("qwen2-7b", 28, 3584, 18944, 28, 4, 152064),
  };
  return models;
}

Model parse_preset(const ModelPreset& preset) {
  return parse_model(preset.text, std::string(preset.name) + ".json");
}

}  // namespace

const std::vector<Model>& known_models() {
  static const std::vector<Model> models = [] {
    std::vector<Model> all = models_in_code();
    std::ranges::transform(model_presets(), std::back_inserter(all), parse_preset);
    return all;
  }();
  return models;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : models_in_code()) names.push_back(model.name);
  for (const ModelPreset& preset : model_presets()) names.emplace_back(preset.name);
  return names;
}

Model find_model(const std::string& name_or_file, std::vector<std::string>* notes) {
  if (name_or_file.ends_with(".json") || name_or_file.find('/') != std::string::npos) {
    return parse_model(read_file(name_or_file), name_or_file, notes);
  }
  for (const Model& model : models_in_code()) {
    if (model.name == name_or_file) return model;
  }
  for (const ModelPreset& preset : model_presets()) {
    if (preset.name == name_or_file) return parse_preset(preset);
  }
  std::vector<std::string> names = model_names();
  constexpr std::size_t most = 5;
  const std::size_t all = names.size();
  names = nearest_first(name_or_file, std::move(names));
  names.resize(most);
  throw input_error(fmt::format("--model: {} and {} more; or give a file that ends in .json",
                                unknown_name("model", name_or_file, names), all - most));
}

}  // namespace pipesim
