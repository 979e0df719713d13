// Models by the config.json of transformers. The samples hold the published numbers of models.
#include "sim/cost/hugging_face.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/operators.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

std::string sample_path(const std::string& name) {
  return PIPESIM_SOURCE_DIR "/examples/hugging_face/" + name + ".json";
}

// A small_config llama, with more keys.
std::string llama_config(const std::string& more) {
  return R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,
    "num_attention_heads":4,"intermediate_size":96,"vocab_size":100,
    "max_position_embeddings":32)" +
         more + "}";
}

std::string small_config(const std::string& type, const std::string& more) {
  std::string text = llama_config(more);
  return text.replace(text.find("llama"), 5, type);
}

struct ConfigRead {
  Model model;
  std::vector<std::string> notes;
};

ConfigRead read_config(const std::string& text) {
  ConfigRead result;
  result.model = parse_model(text, "c.json", &result.notes);
  return result;
}

std::string config_refusal(const std::string& text) {
  return testing::input_error_of([&] { parse_model(text, "c.json"); });
}

TEST(HuggingFace, SamplesHaveThePublishedParameters) {
  // Of the published checkpoints, a tied head counted once.
  const std::map<std::string, std::int64_t> published{
      {"gpt2", 124'439'808},         {"gpt_neox_20b", 20'554'567'680},
      {"llama_3_8b", 8'030'261'248}, {"mistral_7b", 7'241'732'096},
      {"qwen2_7b", 7'615'616'512},   {"qwen3_8b", 8'190'735'360},
      {"qwen3_32b", 32'762'123'264}, {"qwen3_30b_a3b", 30'532'122'624},
      {"gemma_7b", 8'537'680'896},   {"mixtral_8x7b", 46'702'792'704},
  };
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(find_model(sample_path(name)).parameters(), parameters) << name;
  }
}

TEST(HuggingFace, SamplesAreTheModelsKnownByName) {
  const std::map<std::string, std::string> known{{"gpt2", "gpt2-small"},
                                                 {"llama_3_8b", "llama-3-8b"},
                                                 {"qwen2_7b", "qwen2-7b"},
                                                 {"mixtral_8x7b", "mixtral-8x7b"}};
  for (const auto& [name, by_name] : known) {
    std::vector<std::string> notes;
    Model model = find_model(sample_path(name), &notes);
    model.name = by_name;
    EXPECT_EQ(model, find_model(by_name)) << name;
    EXPECT_TRUE(notes.empty()) << notes.front();
  }
}

TEST(HuggingFace, OwnFilesSayTheSame) {
  for (const char* name : {"gpt2", "gpt_neox_20b", "mistral_7b", "qwen3_8b", "qwen3_32b",
                           "qwen3_30b_a3b", "gemma_7b", "mixtral_8x7b"}) {
    const Model model = find_model(sample_path(name));
    EXPECT_EQ(parse_model(to_json(model), "own.json"), model) << name;
  }
}

// ---- Keys

TEST(HuggingFace, UnknownKeysAreNamed) {
  const ConfigRead one =
      read_config(llama_config(R"(,"use_cache":true,"eos_token_id":[1,2],"banana":3)"));
  ASSERT_EQ(one.notes.size(), 1U);
  EXPECT_EQ(one.notes[0], "c.json: a key not known here, and assumed to have no effect: banana");
  const ConfigRead two = read_config(llama_config(R"(,"kiwi":{"a":1},"banana":3,"nothing":null)"));
  ASSERT_EQ(two.notes.size(), 1U);
  EXPECT_EQ(two.notes[0],
            "c.json: keys not known here, and assumed to have no effect: banana, kiwi");
  EXPECT_EQ(two.model, one.model);
}

TEST(HuggingFace, DocumentedDefaultsCount) {
  const Model llama = read_config(llama_config("")).model;
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_size(), 16);
  EXPECT_FALSE(llama.tied_head);
  EXPECT_EQ(llama.rotary_base, 10'000);
  EXPECT_EQ(read_config(llama_config(R"(,"num_key_value_heads":null)")).model, llama);
  EXPECT_EQ(read_config(llama_config(R"(,"head_dim":16)")).model, llama);
  EXPECT_EQ(read_config(llama_config(R"(,"head_dim":8)")).model.attention_size(), 32);
  EXPECT_EQ(read_config(llama_config(R"(,"rope_parameters":{"rope_theta":5e5})")).model.rotary_base,
            500'000);
  const Model gemma = read_config(small_config("gemma", "")).model;
  EXPECT_TRUE(gemma.tied_head);
  EXPECT_EQ(gemma.head_size(), 256);
  EXPECT_EQ(read_config(small_config("qwen3", "")).model.head_size(), 128);
  const Model gpt2 = read_config(R"({"architectures":["GPT2LMHeadModel"],"n_layer":2,"n_embd":32,
      "n_head":4,"vocab_size":50,"n_positions":16})")
                         .model;
  EXPECT_TRUE(gpt2.tied_head);
  EXPECT_EQ(gpt2.mlp_size, 128);
  EXPECT_EQ(gpt2.dropout_ppm, 100'000);
  EXPECT_TRUE(gpt2.has_positions());
}

TEST(HuggingFace, WindowsAreKeptWhereTheyCut) {
  EXPECT_EQ(find_model(sample_path("mistral_7b")).kinds.front().window, 4096);
  EXPECT_EQ(find_model(sample_path("mistral_7b")).max_sequence_length, 4096);
  EXPECT_EQ(
      read_config(small_config("mistral", R"(,"sliding_window":16)")).model.kinds.front().window,
      16);
  EXPECT_EQ(
      read_config(small_config("mistral", R"(,"sliding_window":null)")).model.kinds.front().window,
      std::nullopt);
  EXPECT_EQ(read_config(small_config("mistral", "")).model.kinds.front().window,
            std::nullopt);  // 4096 is longer
  EXPECT_EQ(
      read_config(small_config("qwen2", R"(,"sliding_window":16)")).model.kinds.front().window,
      std::nullopt);
  const std::string used = R"(,"use_sliding_window":true,"sliding_window":16)";
  EXPECT_EQ(read_config(small_config("qwen2", used)).model.kinds.front().window,
            std::nullopt);  // from block 28 on
  EXPECT_EQ(read_config(small_config("qwen2", used + R"(,"max_window_layers":1)"))
                .model.kinds.front()
                .window,
            16);
  EXPECT_EQ(
      read_config(
          small_config("qwen3", used + R"(,"layer_types":["full_attention","sliding_attention"])"))
          .model.kinds.front()
          .window,
      16);
}

TEST(HuggingFace, WhatIsTakenForSomethingElseIsSaid) {
  EXPECT_EQ(find_model(sample_path("gemma_7b")).architecture, Architecture::llama);
  std::vector<std::string> notes;
  find_model(sample_path("gemma_7b"), &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("hidden_act: gelu is taken for silu"), std::string::npos) << notes[0];
  notes.clear();
  find_model(sample_path("gpt_neox_20b"), &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("use_parallel_residual"), std::string::npos) << notes[0];
  EXPECT_NE(read_config(R"({"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":4,"vocab_size":50,
      "n_positions":16,"attn_pdrop":0})")
                .notes.at(0)
                .find("attn_pdrop: 0 is taken for 0.1"),
            std::string::npos);
}

TEST(HuggingFace, WhatCantBeExpressedIsRefused) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string error = config_refusal(text);
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("c.json:")) << error;
  };
  expect(small_config("gemma2", ""), "unknown model type 'gemma2'");
  expect(small_config("t5", ""), "model_type: unknown model type 't5'");
  expect(R"({"architectures":["BertModel"]})", "gpt2, gpt_neox, llama");
  expect(llama_config(R"(,"attention_bias":true)"), "attention_bias: a bias");
  expect(llama_config(R"(,"mlp_bias":true)"), "mlp_bias");
  expect(small_config("gpt_neox", R"(,"attention_bias":false)"), "attention_bias");
  expect(llama_config(R"(,"num_key_value_heads":3)"), "3 do not divide 4 attention heads");
  expect(llama_config(R"(,"head_dim":3)"), "positions turn pairs");
  expect(llama_config(R"(,"add_cross_attention":true)"), "cross attention");
  expect(R"({"model_type":"llama"})", "num_hidden_layers");
  const std::string experts =
      R"(,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8)";
  EXPECT_EQ(read_config(small_config("qwen3_moe", experts)).model.experts, 4);
  expect(small_config("qwen3_moe", experts + R"(,"decoder_sparse_step":2)"), "a mix of blocks");
  expect(small_config("qwen3_moe", experts + R"(,"mlp_only_layers":[0])"), "a mix of blocks");
  expect(small_config("mixtral", R"(,"num_local_experts":2,"num_experts_per_tok":3)"),
         "3 of 2 experts");
  expect(llama_config(R"(,"vocab_size":7)"), "vocab_size");  // twice
}

// ---- Heads of a size of their own

TEST(HuggingFace, HeadsOfTheirOwnSizeAreCountedEverywhere) {
  for (const char* name : {"qwen3_32b", "gemma_7b", "qwen3_30b_a3b"}) {
    const Model model = find_model(sample_path(name));
    ASSERT_NE(model.attention_size(), model.hidden_size);
    const std::int64_t h = model.hidden_size;
    const std::int64_t heads = model.heads * model.head_size();
    const std::int64_t keys = model.kv_heads * model.head_size();
    const std::int64_t matrices = h * (heads + 2 * keys) + heads * h +
                                  3 * h * model.mlp_size * model.experts_per_token +
                                  (model.experts > 1 ? h * model.experts : 0);
    Training training;
    training.sequence_length = 512;
    training.attention = Attention::fused;
    const CostModel costs(model, find_cluster("dgx-h100"), training);
    const double s = 512;
    const double block =
        2 * s * static_cast<double>(matrices) + 4 * s * s * static_cast<double>(heads);
    const double logits = 2 * s * static_cast<double>(h * model.vocabulary_size);
    EXPECT_DOUBLE_EQ(costs.model_flops(1), 3 * (static_cast<double>(model.blocks) * block + logits))
        << name;

    // What is computed forward is that, with half of the attention's skipped.
    double flops = 0;
    for (const Operator& one : layer_operators(model, 1, training)) {
      if (one.pass == Pass::forward) flops += one.flops;
    }
    EXPECT_NEAR(flops, block - 2 * s * s * static_cast<double>(heads), 1e-9 * block) << name;

    // Tensor-parallel ranks have parts of all but norms and the router.
    const std::int64_t whole = model.layer_parameters(1);
    const std::int64_t common = 2 * h +
                                (model.qk_norm != QkNorm::none ? 2 * model.head_size() : 0) +
                                (model.experts > 1 ? h * model.experts : 0);
    for (const int ranks : {2, 4}) {
      EXPECT_EQ(ranks * (rank_parameters(model, 1, ranks) - common), whole - common) << name;
    }
  }
}

TEST(HuggingFace, SequencesBeyondAWindowAreRefused) {
  Training training;
  training.sequence_length = 8192;
  const std::string error = testing::input_error_of([&] {
    CostModel(find_model(sample_path("mistral_7b")), find_cluster("dgx-h100"), training);
  });
  EXPECT_NE(error.find("--sequence-length 8192"), std::string::npos) << error;
  EXPECT_NE(error.find("the longest valid: 4096"), std::string::npos) << error;
}

}  // namespace
}  // namespace pipesim
