// Models by name and from files: what is read, what is refused and how, and how
// many parameters their layers have.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

#include "sim/cost/model.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

std::string model_json(const std::string& rest) {
  return R"({"format":"pipesim-model","version":1,)" + rest + "}";
}

std::string model_error(const std::string& text) {
  return testing::input_error_of([&] { parse_model(text, "m.json"); });
}

// ---- Parameters

TEST(ModelFile, KnownModelsHaveThePublishedParameters) {
  // Of published checkpoints; GPT-2's with its tied head counted once.
  const std::map<std::string, std::int64_t> published{
      {"gpt2-small", 124'439'808},      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},      {"gpt2-xl", 1'557'611'200},
      {"llama-2-7b", 6'738'415'616},    {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},  {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},  {"llama-3-405b", 405'853'388'800},
      {"mixtral-8x7b", 46'702'792'704}, {"mistral-7b", 7'241'732'096},
      {"qwen2-0.5b", 494'032'768},      {"qwen2-7b", 7'615'616'512}};
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(find_model(name).parameters(), parameters) << name;
  }
}

TEST(ModelFile, MegatronModelsAreAsLargeAsTheirPapersSay) {
  // Billions as printed in arXiv 2104.04473, table 1, and 2205.05198, table 3.
  const std::map<std::string, double> published{
      {"megatron-1.7b", 1.7},   {"megatron-3.6b", 3.6},   {"megatron-7.5b", 7.5},
      {"megatron-18.4b", 18.4}, {"megatron-22b", 22},     {"megatron-39.1b", 39.1},
      {"megatron-76b", 76.1},   {"megatron-145b", 145.6}, {"megatron-310b", 310.1},
      {"megatron-530b", 529.6}, {"megatron-1t", 1008.0},  {"gpt3-175b", 174.6},
      {"gpt3-1.3b", 1.3},       {"gpt3-6.7b", 6.7},       {"gpt3-13b", 12.9}};
  for (const auto& [name, billions] : published) {
    const Model model = find_model(name);
    EXPECT_NEAR(static_cast<double>(model.parameters()) / 1e9, billions, 0.1) << name;
    // The first paper's equation 2, 12lh^2(1 + 13/12h + (V+s)/12lh), leaves out the last norm.
    const std::int64_t l = model.blocks;
    const std::int64_t h = model.hidden_size;
    const std::int64_t tables = model.vocabulary_size + model.max_sequence_length;
    EXPECT_EQ(model.parameters(), 12 * l * h * h + 13 * l * h + tables * h + 2 * h) << name;
  }
}

// Every matrix and vector of a layer as they are written down one by one: where a token goes, and
// in experts that it does not go to.
class Sizes {
 public:
  explicit Sizes(const Model& model) : model_(model) {}

  std::int64_t used = 0;
  std::int64_t idle = 0;

  void linear(std::int64_t inputs, std::int64_t outputs, bool has_bias, bool is_used = true) {
    (is_used ? used : idle) += inputs * outputs;
    if (has_bias) (is_used ? used : idle) += outputs;
  }
  void norm(std::int64_t width) {
    if (model_.norm_kind != NormKind::unscaled) used += width;
    if (model_.norm_kind == NormKind::layer) used += width;
  }

  void block(const BlockKind& kind) {
    const std::int64_t h = model_.hidden_size;
    if (model_.architecture == Architecture::mlp) {
      linear(h, h, true);
      return;
    }
    for (int i = 0; i < model_.norms; ++i) norm(h);
    attention();
    if (!kind.has_experts) {
      mlp(model_.mlp_size, true);
      if (model_.has_inner_norms) norm(model_.mlp_size);
      return;
    }
    linear(h, model_.experts, model_.biases.router);
    if (model_.shared_size > 0) mlp(model_.shared_size, true);
    if (model_.has_shared_gate) linear(h, 1, false);
    for (int i = 0; i < model_.experts; ++i) mlp(model_.expert_size, i < model_.experts_per_token);
  }

 private:
  void attention() {
    const std::int64_t h = model_.hidden_size;
    std::int64_t made = 0;  // of each head
    if (const auto& latent = model_.latent) {
      const std::int64_t query = latent->plain_size + latent->rotary_size;
      made = latent->value_size;
      if (latent->query_rank > 0) {
        linear(h, latent->query_rank, false);
        norm(latent->query_rank);
      }
      linear(h, latent->kv_rank, false);
      linear(h, latent->rotary_size, false);
      norm(latent->kv_rank);
      for (int head = 0; head < model_.heads; ++head) {
        linear(latent->query_rank > 0 ? latent->query_rank : h, query, false);
        linear(latent->kv_rank, latent->plain_size, false);
        linear(latent->kv_rank, latent->value_size, false);
      }
    } else {
      made = model_.own_head_size.value_or(h / model_.heads);
      for (int head = 0; head < model_.heads; ++head) linear(h, made, model_.biases.qkv);
      for (int head = 0; head < 2 * model_.kv_heads; ++head) linear(h, made, model_.biases.qkv);
    }
    linear(model_.heads * made, h, model_.biases.attention_output);
    if (model_.has_attention_gate) linear(h, model_.heads * made, false);
    if (model_.has_inner_norms) norm(model_.heads * made);
    if (model_.has_sinks) used += model_.heads;
    const std::int64_t query = model_.head_size();
    if (model_.qk_norm == QkNorm::heads) used += 2 * query;
    if (model_.qk_norm == QkNorm::layer) used += 2 * query + 2 * query;
    if (model_.qk_norm == QkNorm::whole) used += (model_.heads + model_.kv_heads) * query;
  }
  void mlp(std::int64_t width, bool is_used) {
    const std::int64_t h = model_.hidden_size;
    linear(h, width, model_.biases.mlp, is_used);
    if (model_.is_gated) linear(h, width, model_.biases.mlp, is_used);
    linear(width, h, model_.biases.mlp, is_used);
  }

  const Model& model_;
};

// Some model that a file can say, with any of the keys.
Model random_model(std::mt19937& random) {
  const auto any = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  const auto coin = [&] { return any(0, 1) == 1; };
  Model model{.name = "random"};
  model.shape_as(coin() ? Architecture::llama : Architecture::gpt);
  model.blocks = any(1, 7);
  model.heads = any(1, 3) * 2;
  model.hidden_size = model.heads * any(1, 4) * 2;
  model.kv_heads = coin() ? model.heads : model.heads / 2;
  if (coin()) model.own_head_size = model.hidden_size / model.heads + 2;
  if (any(0, 3) == 0) {
    model.latent = {any(0, 9), any(1, 9), any(1, 9), any(1, 4) * 2, any(1, 9)};
    model.kv_heads = model.heads;
    model.own_head_size.reset();
  }
  model.mlp_size = any(1, 40);
  model.vocabulary_size = any(1, 90);
  model.max_sequence_length = any(1, 90);
  model.tied_head = coin();
  model.dropout_ppm = any(0, 9) * 1000;
  model.is_gated = coin();
  model.positions = static_cast<Positions>(any(0, 2));
  model.norm_kind = static_cast<NormKind>(any(0, 3));
  model.qk_norm = static_cast<QkNorm>(any(0, 4));
  model.biases = {coin(), coin(), coin(), coin(), coin()};
  model.norms = std::array{1, 2, 4}[static_cast<std::size_t>(any(0, 2))];
  model.is_parallel = coin();
  model.has_embedding_norm = coin();
  model.has_inner_norms = coin();
  model.has_sinks = coin();
  model.has_attention_gate = coin();
  model.prediction_depths = any(0, 2);
  if (model.positions == Positions::rotary) model.rotary_base = any(1, 1'000'000);
  if (model.positions == Positions::table && model.architecture == Architecture::gpt) {
    model.extra_positions = any(0, 3);
  }
  if (coin()) {
    model.experts = any(1, 4) * 2;
    model.experts_per_token = any(1, model.experts);
    model.expert_size = any(1, 20);
    model.shared_size = coin() ? any(1, 20) : 0;
    model.has_shared_gate = model.shared_size > 0 && coin();
    if (coin()) {
      model.expert_groups = 2;
      model.groups_per_token = any(1, 2);
    }
  }
  model.kinds.clear();
  for (std::int64_t i = any(1, model.blocks); i > 0; --i) {
    BlockKind& kind = model.kinds.emplace_back();
    kind.has_experts = model.experts > 1 && coin();
    if (coin()) (coin() ? kind.window : kind.chunk) = any(1, 50);
  }
  return model;
}

TEST(ModelFile, ParametersAreThoseOfEveryMatrix) {
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    Model model = random_model(random);
    if (i % 10 == 0) {
      model = Model{.name = "mlp", .blocks = 3, .hidden_size = 24, .tied_head = i % 20 == 0};
      model.shape_as(Architecture::mlp);
    }
    const std::string written = to_json(model);
    const std::int64_t h = model.hidden_size;
    Sizes first(model);
    first.used += model.vocabulary_size * h;
    if (model.positions == Positions::table) {
      first.used += (model.max_sequence_length + model.extra_positions) * h;
    }
    if (model.has_embedding_norm) first.norm(h);
    EXPECT_EQ(model.layer_parameters(0), first.used) << written;
    Sizes last(model);
    last.linear(h, model.vocabulary_size, model.biases.head);
    if (model.architecture != Architecture::mlp) last.norm(h);
    EXPECT_EQ(model.layer_parameters(model.layers() - 1), last.used) << written;
    Sizes all(model);
    for (int block = 0; block < model.blocks; ++block) {
      Sizes own(model);
      own.block(model.kinds[static_cast<std::size_t>(block) % model.kinds.size()]);
      EXPECT_EQ(model.layer_parameters(1 + block), own.used + own.idle) << written;
      all.used += own.used;
      all.idle += own.idle;
    }
    all.used += first.used + last.used - (model.tied_head ? model.vocabulary_size * h : 0);
    EXPECT_EQ(model.parameters(), all.used + all.idle) << written;
    EXPECT_EQ(model.active_parameters(), all.used) << written;
    Sizes prediction(model);
    prediction.block(model.kind_of(static_cast<int>(model.blocks)));
    prediction.linear(2 * h, h, false);
    for (int norm = 0; norm < 3; ++norm) prediction.norm(h);
    EXPECT_EQ(model.prediction_parameters(),
              model.prediction_depths * (prediction.used + prediction.idle))
        << written;
  }
}

TEST(ModelFile, WhatIsWrittenIsReadAgain) {
  std::mt19937 random(8);
  for (int i = 0; i < 2000; ++i) {
    const Model model = random_model(random);
    const std::string written = to_json(model);
    EXPECT_EQ(parse_model(written, "again.json"), model) << written;
  }
}

TEST(ModelFile, ATokenMeetsAFewExperts) {
  // 12.9 billion, says arXiv 2401.04088.
  EXPECT_NEAR(static_cast<double>(find_model("mixtral-8x7b").active_parameters()), 12.9e9, 5e7);
  const Model dense = find_model("llama-3-8b");
  EXPECT_EQ(dense.active_parameters(), dense.parameters());
}

// ---- Files

TEST(ModelFile, KnownModelsAreWrittenAndReadAgain) {
  std::set<std::string> names;
  for (const Model& model : known_models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_EQ(find_model(model.name), model);
    EXPECT_EQ(parse_model(to_json(model), "again.json"), model) << model.name;
  }
  const testing::TemporaryFolder folder;
  write_file(folder / "model.json", to_json(find_model("mixtral-8x7b")));
  EXPECT_EQ(find_model(folder / "model.json"), find_model("mixtral-8x7b"));
}

TEST(ModelFile, KeysThatAreLeftOutHaveTheirDefaults) {
  const std::string sizes = R"("blocks":2,"hidden_size":24,"heads":6,"vocabulary_size":11,)"
                            R"("max_sequence_length":7)";
  const Model gpt = parse_model(model_json(R"("architecture":"gpt",)" + sizes), "g.json");
  EXPECT_EQ(gpt, (Model{.name = "g.json",
                        .architecture = Architecture::gpt,
                        .blocks = 2,
                        .hidden_size = 24,
                        .heads = 6,
                        .kv_heads = 6,
                        .mlp_size = 96,
                        .vocabulary_size = 11,
                        .max_sequence_length = 7,
                        .tied_head = false}));
  Model llama = gpt;
  llama.name = "l";
  llama.shape_as(Architecture::llama);
  llama.kv_heads = 3;
  llama.mlp_size = 40;
  llama.experts = 4;
  llama.experts_per_token = 2;
  llama.expert_size = 40;
  llama.kinds.front().has_experts = true;
  llama.tied_head = true;
  std::string rest = R"(,"name":"l","architecture":"llama","kv_heads":3,"mlp_size":40,)"
                     R"("experts":4,"experts_per_token":2,"tied_head":true)";
  EXPECT_EQ(llama.rotary_base, 10'000);
  EXPECT_FALSE(llama.biases.qkv);
  EXPECT_EQ(parse_model(model_json(sizes + rest), "l.json"), llama);
  EXPECT_EQ(parse_model(to_json(llama), "l.json"), llama);
  rest += R"(,"rotary_base":500000,"qkv_bias":true)";
  llama.rotary_base = 500'000;
  llama.biases.qkv = true;
  EXPECT_EQ(parse_model(model_json(sizes + rest), "l.json"), llama);
  EXPECT_EQ(parse_model(to_json(llama), "l.json"), llama);
}

TEST(ModelFile, AListSaysWhatEveryLayerIs) {
  const Model model = parse_model(model_json(R"("architecture":"layers","layers":[
    {"name":"stem","forward_ns":5,"output_bytes":8},
    {"name":"body","parameters":100,"forward_flops":1.5e12,"backward_bytes":9,"saved_bytes":7,
     "output_bytes":8,"repeat":3},
    {"name":"body","parameters":100,"forward_flops":1.5e12,"backward_bytes":9,"saved_bytes":7,
     "output_bytes":8},
    {"name":"top","parameters":10,"forward_bytes":4,"backward_flops":3}])"),
                                  "m.json");
  ListedLayer stem{.name = "stem"};
  stem.forward_ns = 5;
  stem.backward_ns = 10;
  stem.output_bytes = 8;
  ListedLayer body{.name = "body"};
  body.parameters = 100;
  body.forward_flops = 1.5e12;
  body.backward_flops = 3e12;
  body.backward_bytes = 9;
  body.saved_bytes = 7;
  body.output_bytes = 8;
  ListedLayer top{.name = "top"};
  top.parameters = 10;
  top.backward_flops = 3;
  top.forward_bytes = 4;
  top.backward_bytes = 8;
  EXPECT_EQ(model.list, (std::vector<ListedLayer>{stem, body, body, body, body, top}));
  EXPECT_TRUE(model.is_listed());
  EXPECT_EQ(model.hidden_size, 0);
  EXPECT_EQ(model.max_sequence_length, 0);
  EXPECT_EQ(model.heads, 1);
  EXPECT_EQ(model.layers(), 6);
  EXPECT_EQ(model.layer_name(0), "stem");
  EXPECT_EQ(model.layer_name(5), "top");
  EXPECT_FALSE(model.is_embedding(0));
  EXPECT_FALSE(model.is_head(5));
  EXPECT_EQ(model.layer_parameters(4), 100);
  EXPECT_EQ(model.parameters(), 410);
  EXPECT_EQ(model.active_parameters(), 410);
  const std::string written = to_json(model);
  EXPECT_EQ(parse_model(written, "again.json"), model);
  EXPECT_NE(written.find(R"("repeat":4)"), std::string::npos) << written;
}

TEST(ModelFile, WhatIsWrongIsSaidWithWhatWouldDo) {
  const auto gpt = [](const std::string& rest) {
    return model_json(
        R"("architecture":"gpt","blocks":2,"vocabulary_size":99,"max_sequence_length":8,)" + rest);
  };
  const auto llama = [](const std::string& rest) {
    return model_json(R"("architecture":"llama","blocks":2,"hidden_size":128,"heads":8,)"
                      R"("vocabulary_size":99,"max_sequence_length":8,)" +
                      rest);
  };
  const auto listed = [](const std::string& layers) {
    return model_json(R"("architecture":"layers","layers":)" + layers);
  };
  const std::string huge = R"("hidden_size":1048576,"heads":1)";
  const std::pair<std::string, std::string> wrong[] = {
      {gpt(R"("hidden_size":128,"heads":10)"),
       "heads: 10 heads do not divide a hidden_size of 128; the nearest that do are 8 and 16"},
      {gpt(R"("hidden_size":128,"heads":300)"),
       "heads: 300 heads do not divide a hidden_size of 128; the nearest that does is 128"},
      {gpt(R"("hidden_size":128,"heads":8,"kv_heads":3)"),
       "kv_heads: 3 kv_heads do not divide 8 heads; the nearest that do are 2 and 4"},
      {gpt(R"("hidden_size":128,"heads":8,"kv_heads":16)"),
       "kv_heads: 16 kv_heads do not divide 8 heads; the nearest that does is 8"},
      {gpt(R"("hidden_size":128,"heads":8,"kv_heads":0)"),
       "kv_heads: 0 is out of range: it must lie between 1 and"},
      {llama(R"("mlp_size":9,"experts":4)"), "key 'experts_per_token' is missing"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":5)"),
       "experts_per_token: 5 are more than the model's 4 experts; give at most 4"},
      {llama(R"("mlp_size":9,"experts_per_token":2)"),
       "experts_per_token: 2 are more than the model's 1 expert; give at most 1"},
      {llama(R"("experts":1)"), "key 'mlp_size' is missing"},
      {llama(R"("mlp_size":9,"layers":[])"), "unknown key 'layers'"},
      {llama(R"("mlp_size":9,"rotary_base":0)"), "rotary_base: 0 is out of range"},
      {llama(R"("mlp_size":9,"rotary_base":1.5)"), "rotary_base: "},
      {llama(R"("mlp_size":9,"qkv_bias":1)"), "qkv_bias: "},
      {llama(R"("mlp_size":9,"source":1)"), "source: must be a string"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"expert_size":0)"),
       "expert_size: 0 is out of range"},
      {llama(R"("mlp_size":9,"expert_size":3)"), "unknown key 'expert_size'"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"shared_size":-1)"),
       "shared_size: -1 is out of range"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"shared_gate":true)"),
       "unknown key 'shared_gate'"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"shared_size":3,"shared_gate":1)"),
       "shared_gate: must be true or false"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"expert_groups":3)"),
       "expert_groups: 3 groups do not divide 4 experts; the nearest that do are 2 and 4"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"expert_groups":2)"),
       "key 'groups_per_token' is missing"},
      {llama(R"("mlp_size":9,"experts":4,"experts_per_token":2,"expert_groups":2,)"
             R"("groups_per_token":3)"),
       "groups_per_token: 3 is out of range"},
      {llama(R"("mlp_size":9,"kinds":[])"), "kinds: an empty list; give at least one kind"},
      {llama(R"("mlp_size":9,"kinds":[{}],"window":3)"), "kinds: `window` is that of all blocks"},
      {llama(R"("mlp_size":9,"kinds":[{"experts":true}])"),
       "kinds[0]: blocks with experts, but the model has none; give `experts`"},
      {llama(R"("mlp_size":9,"kinds":[{"window":3,"chunk":3}])"),
       "kinds[0]: has a window as well as chunks; keep one of them"},
      {llama(R"("mlp_size":9,"kinds":[{},{},{}])"),
       "kinds[2]: kinds of 3 blocks and more, but the model has 2"},
      {llama(R"("mlp_size":9,"kinds":[{"repeat":3}])"), "kinds[0].repeat: 3 is out of range"},
      {llama(R"("mlp_size":9,"kinds":[{"chunk":0}])"), "kinds[0].chunk: 0 is out of range"},
      {llama(R"("mlp_size":9,"kinds":[{"heads":3}])"), "unknown key 'heads'"},
      {llama(R"("mlp_size":9,"prediction_depths":17)"), "prediction_depths: 17 is out of range"},
      {llama(R"("mlp_size":9,"gated":1)"), "gated: must be true or false"},
      {llama(R"("mlp_size":9,"positions":"alibi")"), "positions: unknown kind 'alibi'; known"},
      {llama(R"("mlp_size":9,"extra_positions":2)"), "unknown key 'extra_positions'"},
      {llama(R"("mlp_size":9,"norm":"batch")"), "norm: unknown kind 'batch'; known"},
      {llama(R"("mlp_size":9,"norms":3)"), "norms: a block has 1, 2 or 4 norms"},
      {llama(R"("mlp_size":9,"parallel":0)"), "parallel: must be true or false"},
      {llama(R"("mlp_size":9,"embedding_norm":0)"), "embedding_norm: must be true or false"},
      {llama(R"("mlp_size":9,"inner_norms":0)"), "inner_norms: must be true or false"},
      {llama(R"("mlp_size":9,"sinks":0)"), "sinks: must be true or false"},
      {llama(R"("mlp_size":9,"attention_gate":0)"), "attention_gate: must be true or false"},
      {llama(R"("mlp_size":9,"biases":["keys"])"), "biases[0]: unknown bias 'keys'; known"},
      {llama(R"("mlp_size":9,"qk_norm":"each")"), "qk_norm: unknown kind 'each'; known"},
      {llama(R"("mlp_size":9,"latent":{})"), "latent: key 'kv_rank' is missing"},
      {llama(
           R"("mlp_size":9,"latent":{"kv_rank":4,"plain_size":4,"rotary_size":3,"value_size":4})"),
       "heads: 8 heads of 3 numbers, but rotary positions turn pairs"},
      {llama(R"("mlp_size":9,"kv_heads":2,"latent":{"kv_rank":4,"plain_size":4,"rotary_size":2,)"
             R"("value_size":4})"),
       "unknown key 'kv_heads'"},
      {gpt(R"("hidden_size":128,"heads":8,"rotary_base":10000)"), "unknown key 'rotary_base'"},
      {gpt(R"("hidden_size":128,"heads":8,"qkv_bias":true)"), "unknown key 'qkv_bias'"},
      {model_json(R"("architecture":"llama","blocks":2,"hidden_size":24,"heads":8,"mlp_size":9,)"
                  R"("vocabulary_size":9,"max_sequence_length":8)"),
       "heads: 8 heads of 3 numbers, but rotary positions turn pairs; give heads of an even size"},
      {model_json(R"("architecture":"mlp","blocks":2,"hidden_size":8,"vocabulary_size":9,)"
                  R"("max_sequence_length":8,"kv_heads":1)"),
       "unknown key 'kv_heads'"},
      {model_json(R"("architecture":"lama")"),
       "unknown architecture 'lama'; known, nearest first: llama, gpt, mlp, layers"},
      {gpt(R"("experts":65536,"experts_per_token":1,)" + huge), "more than 1e+15 parameters"},
      {model_json(R"("architecture":"layers")"), "key 'layers' is missing"},
      {listed("[]"), "layers: an empty list; give at least one layer"},
      {listed("{}"), "layers: must be a list"},
      {model_json(R"("architecture":"layers","blocks":2,"layers":[{"name":"a","forward_ns":1}])"),
       "unknown key 'blocks'"},
      {listed(R"([{"forward_ns":1}])"), "layers[0]: key 'name' is missing"},
      {listed(R"([{"name":"a"}])"), "layers[0]: a forward is missing: give forward_ns, or"},
      {listed(R"([{"name":"a","backward_ns":1}])"), "layers[0]: a forward is missing"},
      {listed(R"([{"name":"a","forward_ns":1,"forward_bytes":1}])"),
       "layers[0]: has a time as well as FLOPs or bytes; keep one of them"},
      {listed(R"([{"name":"a","forward_flops":1,"backward_ns":1}])"), "has a time as well as"},
      {listed(R"([{"name":"a","forward_ns":1,"backward_flops":1}])"), "has a time as well as"},
      {listed(R"([{"name":"a","forward_ns":1,"repeat":0}])"), "layers[0].repeat: 0 is out of"},
      {listed(R"([{"name":"a","forward_ns":1,"repeat":16384},{"name":"b","forward_ns":1}])"),
       "layers[1]: more than 16384 layers; put some of them together"},
      {listed(R"([{"name":"a","forward_ns":1,"parameters":1e15,"repeat":16384}])"),
       "more than 1e+15 parameters"},
      {listed(R"([{"name":"a","forward_flops":-1}])"), "layers[0].forward_flops: -1 is out of"},
      {listed(R"([{"name":"a","forward":1}])"), "a forward is missing"},
      {listed(R"([{"name":"a","forward_ns":1,"bytes":1}])"), "unknown key 'bytes'"},
  };
  for (const auto& [text, want] : wrong) {
    const std::string got = model_error(text);
    EXPECT_TRUE(got.starts_with("m.json:")) << got;
    EXPECT_NE(got.find(want), std::string::npos) << "want " << want << "\n got " << got;
  }
}

TEST(ModelFile, AnUnknownNameIsAnsweredWithTheNearest) {
  const std::string error = testing::input_error_of([] { find_model("lama-2-7b"); });
  EXPECT_TRUE(error.starts_with(
      "--model: unknown model 'lama-2-7b'; known, nearest first: llama-2-7b, llama-2-70b, "))
      << error;
  EXPECT_NE(error.find("more; or give a file that ends in .json"), std::string::npos) << error;
}

TEST(ModelFile, TheFormatsExamplesAndNamesAreTrue) {
  const std::string format = read_file(testing::source_file("traces/FORMAT.md"));
  const std::string fence = "```json\n";
  std::set<std::string> examples;
  for (std::size_t at = format.find(fence); at != std::string::npos;
       at = format.find(fence, at + 1)) {
    const std::size_t start = at + fence.size();
    const std::string example = format.substr(start, format.find("```", start) - start);
    const bool is_model = example.find("pipesim-model\"") != std::string::npos;
    if (!is_model || example.find("\"tables\"") != std::string::npos) continue;
    examples.insert(parse_model(example, "FORMAT.md").name);
  }
  EXPECT_EQ(examples, (std::set<std::string>{"a tower", "four blocks", "six blocks"}));
  for (const Model& model : known_models()) {
    EXPECT_NE(format.find("`" + model.name + "`"), std::string::npos) << model.name;
  }
}

}  // namespace
}  // namespace pipesim
