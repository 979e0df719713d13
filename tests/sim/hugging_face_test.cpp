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

// The same with two heads of keys and values.
std::string grouped_config(const std::string& type, const std::string& more) {
  return small_config(type, R"(,"num_key_value_heads":2)" + more);
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
  const Model gemma = read_config(grouped_config("gemma", "")).model;
  EXPECT_TRUE(gemma.tied_head);
  EXPECT_EQ(gemma.head_size(), 256);
  EXPECT_EQ(read_config(grouped_config("qwen3", "")).model.head_size(), 128);
  EXPECT_EQ(read_config(grouped_config("gemma", R"(,"head_dim":null)")).model.head_size(), 16);
  const Model gpt2 = read_config(R"({"architectures":["GPT2LMHeadModel"],"n_layer":2,"n_embd":32,
      "n_head":4,"vocab_size":50,"n_positions":16})")
                         .model;
  EXPECT_TRUE(gpt2.tied_head);
  EXPECT_EQ(gpt2.mlp_size, 128);
  EXPECT_EQ(gpt2.dropout_ppm, 100'000);
  EXPECT_TRUE(gpt2.has_positions());
}

// Of each block: f for all tokens, w and c for a window and a chunk; large letters with experts.
std::string blocks_of(const std::string& text) {
  const Model model = read_config(text).model;
  std::string all;
  for (int block = 1; block <= model.blocks; ++block) {
    const BlockKind& kind = model.kind_of(block);
    const char letter = kind.window ? 'w' : kind.chunk ? 'c' : 'f';
    all += kind.has_experts ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return all;
}

TEST(HuggingFace, WindowsAreThoseOfEachBlock) {
  EXPECT_EQ(find_model(sample_path("mistral_7b")).kinds, std::vector{BlockKind{.window = 4096}});
  const auto eight = [](const std::string& type, const std::string& more) {
    std::string text = grouped_config(type, more);
    return blocks_of(text.replace(text.find("layers\":2"), 9, "layers\":8"));
  };
  const std::string narrow = R"(,"sliding_window":16)";
  const std::string used = narrow + R"(,"use_sliding_window":true)";
  const std::string types =
      R"(,"layer_types":["full_attention","sliding_attention","full_attention","full_attention",)"
      R"("full_attention","full_attention","full_attention","full_attention"])";
  EXPECT_EQ(eight("mistral", narrow), "wwwwwwww");
  EXPECT_EQ(eight("mistral", R"(,"sliding_window":null)"), "ffffffff");
  EXPECT_EQ(eight("mistral", ""), "ffffffff");  // 4096 is longer
  EXPECT_EQ(eight("phi3", narrow), "wwwwwwww");
  EXPECT_EQ(eight("qwen2", narrow), "ffffffff");
  EXPECT_EQ(eight("qwen2", used), "ffffffff");  // from block 28 on
  EXPECT_EQ(eight("qwen2", used + R"(,"max_window_layers":3)"), "fffwwwww");
  EXPECT_EQ(eight("gemma2", narrow), "wfwfwfwf");
  EXPECT_EQ(eight("gemma3_text", narrow), "wwwwwfww");
  EXPECT_EQ(eight("gemma3_text", narrow + R"(,"sliding_window_pattern":2)"), "wfwfwfwf");
  EXPECT_EQ(eight("cohere2", narrow), "wwwfwwwf");
  EXPECT_EQ(eight("exaone4", narrow + R"(,"sliding_window_pattern":3)"), "wwfwwfww");
  EXPECT_EQ(eight("exaone4", R"(,"sliding_window":null)"), "ffffffff");
  EXPECT_EQ(eight("exaone4", narrow + types + R"(,"sliding_window_pattern":"LLLG")"), "fwffffff");
  EXPECT_EQ(eight("cwm", narrow), "fwwwfwww");
  EXPECT_EQ(eight("smollm3", narrow), "ffffffff");
  EXPECT_EQ(eight("smollm3", used), "fffwfffw");
  EXPECT_EQ(eight("gemma2", narrow + types), "fwffffff");
  EXPECT_EQ(eight("qwen3", used + types), "fwffffff");
  EXPECT_EQ(eight("qwen3", narrow + types), "ffffffff");

  const std::string experts = R"(,"num_experts_per_tok":2,"moe_intermediate_size":8)";
  const std::string counted = experts + R"(,"num_experts":4)";
  EXPECT_EQ(eight("mixtral", narrow), "WWWWWWWW");
  EXPECT_EQ(eight("qwen3_moe", counted + R"(,"decoder_sparse_step":2)"), "fFfFfFfF");
  EXPECT_EQ(eight("qwen3_moe", counted + R"(,"mlp_only_layers":[0,3])"), "fFFfFFFF");
  EXPECT_EQ(eight("qwen2_moe", counted + used + R"(,"max_window_layers":5)"), "WFWFWFFF");
  EXPECT_EQ(eight("gpt_oss", narrow + R"(,"num_local_experts":4)"), "WFWFWFWF");
  EXPECT_EQ(eight("deepseek_v3", experts + R"(,"n_routed_experts":8,"n_group":1)"), "fffFFFFF");
  EXPECT_EQ(eight("glm4_moe", experts + R"(,"n_routed_experts":8)"), "fFFFFFFF");
  EXPECT_EQ(eight("hy_v3", counted), "fFFFFFFF");
  EXPECT_EQ(eight("llama4_text", R"(,"attention_chunk_size":8)"), "CCCFCCCF");
  EXPECT_EQ(eight("llama4_text", R"(,"attention_chunk_size":8,"interleave_moe_layer_step":2)"),
            "cCcFcCcF");
  EXPECT_EQ(eight("llama4_text", R"(,"attention_chunk_size":8,"moe_layers":[1],)"
                                 R"("no_rope_layers":[1,0,1,1,1,1,1,1])"),
            "cFcccccc");
  EXPECT_EQ(eight("afmoe", narrow + experts + R"(,"num_dense_layers":2)"), "wwWFWWWF");
  EXPECT_EQ(
      eight("ernie4_5_moe", experts + R"(,"moe_layer_start_index":2,"moe_layer_end_index":5)"),
      "ffFFFFff");
  EXPECT_EQ(eight("cohere2_moe", narrow + R"(,"first_k_dense_replace":2)"), "ffWWWFWW");
}

TEST(HuggingFace, LatentAttentionAndPredictionsAreRead) {
  const Model model = read_config(grouped_config("deepseek_v3", R"(,"moe_intermediate_size":8,
      "first_k_dense_replace":1,"q_lora_rank":null,"kv_lora_rank":6,"v_head_dim":5,
      "num_nextn_predict_layers":2,"n_shared_experts":3)"))
                          .model;
  EXPECT_EQ(model.latent, (LatentAttention{0, 6, 128, 64, 5}));
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.prediction_depths, 2);
  EXPECT_EQ(model.shared_size, 24);
  EXPECT_EQ(model.expert_groups, 8);
  EXPECT_EQ(model.groups_per_token, 4);
  EXPECT_EQ(model.experts, 256);
}

TEST(HuggingFace, OfWhatSeesPicturesTheTextIsRead) {
  const ConfigRead nested =
      read_config(R"({"model_type":"gemma3","vision_config":{"hidden_size":9},"text_config":)" +
                  grouped_config("gemma3_text", "") + "}");
  const Model text = read_config(grouped_config("gemma3_text", "")).model;
  EXPECT_EQ(nested.model, text);
  ASSERT_GE(nested.notes.size(), 1U);
  EXPECT_NE(nested.notes[0].find("text_config alone is read"), std::string::npos)
      << nested.notes[0];
  const ConfigRead flat = read_config(grouped_config("qwen2_5_vl", R"(,"vision_config":{"a":1})"));
  EXPECT_TRUE(flat.model.biases.qkv);
  EXPECT_NE(flat.notes[0].find("its text part is read"), std::string::npos) << flat.notes[0];
  const std::string error = config_refusal(
      R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":true}})");
  EXPECT_NE(error.find("text_config"), std::string::npos) << error;
}

TEST(HuggingFace, WhatIsTakenForSomethingElseIsSaid) {
  EXPECT_EQ(find_model(sample_path("gemma_7b")).architecture, Architecture::llama);
  std::vector<std::string> notes;
  find_model(sample_path("gemma_7b"), &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("hidden_act: gelu is taken for silu"), std::string::npos) << notes[0];
  notes.clear();
  find_model(sample_path("gpt_neox_20b"), &notes);
  EXPECT_TRUE(notes.empty()) << notes.front();
  EXPECT_NE(read_config(R"({"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":4,"vocab_size":50,
      "n_positions":16,"attn_pdrop":0})")
                .notes.at(0)
                .find("attn_pdrop: 0 is taken for 0.1"),
            std::string::npos);
  EXPECT_NE(read_config(grouped_config("gemma2", "")).notes.at(0).find("caps of scores"),
            std::string::npos);
  const ConfigRead far = read_config(
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
      "intermediate_size":96,"vocab_size":100,"max_position_embeddings":10485760})");
  EXPECT_EQ(far.model.max_sequence_length, 1 << 20);
  EXPECT_NE(far.notes.at(0).find("10485760 is taken for 1048576"), std::string::npos);
}

TEST(HuggingFace, WhatCantBeExpressedIsRefused) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string error = config_refusal(text);
    EXPECT_NE(error.find(part), std::string::npos) << error << "\n want " << part;
    EXPECT_TRUE(error.starts_with("c.json:")) << error;
  };
  expect(small_config("lama", ""), "model_type: unknown model type 'lama'; known, nearest first: ");
  expect(small_config("lama", ""), " more; or describe it as a pipesim-model");
  for (const auto& [type, why] : std::map<std::string, std::string>{
           {"t5", "is an encoder-decoder"},
           {"mamba2", "has layers of a state-space model or of linear attention"},
           {"qwen3_next", "has layers of a state-space model"},
           {"deepseek_v32", "has sparse indexed or compressed attention"},
           {"bert", "is an encoder"},
           {"mllama", "has cross-attention"},
           {"llava", "is a model of more than text; give its text_config"},
           {"mimo_v2_flash", "has blocks whose heads differ"},
           {"axk1", "has a norm in only those blocks that have experts"}}) {
    expect(small_config(type, ""), "model_type: '" + type + "' " + why);
  }
  expect(R"({"architectures":["BertModel"]})", "'BertModel' is none of those that are read");
  expect(R"({"architectures":[]})", "neither model_type nor architectures");
  expect(llama_config(R"(,"num_key_value_heads":3)"), "3 do not divide 4 attention heads");
  expect(small_config("mistral", ""), "num_key_value_heads: 8 do not divide 4 attention heads");
  expect(llama_config(R"(,"head_dim":3)"), "positions turn pairs");
  expect(llama_config(R"(,"add_cross_attention":true)"), "cross attention");
  expect(llama_config(R"(,"attention_bias":1)"), "attention_bias: must be true or false");
  expect(R"({"model_type":"llama"})", "num_hidden_layers");
  expect(small_config("mixtral", R"(,"num_local_experts":4,"num_experts_per_tok":5,)"
                                 R"("num_key_value_heads":2)"),
         "5 of 4 experts");
  expect(grouped_config("qwen3_moe", R"(,"moe_intermediate_size":8)"),
         "key 'num_local_experts' is missing");
  expect(grouped_config("gemma2", R"(,"layer_types":["full_attention"])"),
         "layer_types: 1 entry of 2 blocks; give one for each");
  expect(grouped_config("gemma2", R"(,"layer_types":["full_attention","linear_attention"])"),
         "layer_types[1]: 'linear_attention'; only these are read: full_attention, sliding_");
  expect(grouped_config("deepseek_v3", R"(,"moe_intermediate_size":8)"), "no block has experts");
  expect(grouped_config("deepseek_v3", R"(,"moe_intermediate_size":8,"first_k_dense_replace":0,)"
                                       R"("n_routed_experts":12)"),
         "n_group: 8 groups do not divide 12 experts");
  expect(grouped_config("deepseek_v3", R"(,"moe_intermediate_size":8,"attention_bias":true)"),
         "attention_bias: biases of latent attention");
  expect(small_config("opt", R"(,"ffn_dim":8,"do_layer_norm_before":false)"),
         "do_layer_norm_before: blocks that normalize their outputs");
  expect(small_config("opt", R"(,"ffn_dim":8,"word_embed_proj_dim":32)"),
         "word_embed_proj_dim: an embedding of another width");
  expect(llama_config(R"(,"vocab_size":7)"), "vocab_size");  // twice
}

// ---- Parameters of every type

struct GoldenConfig {
  std::string type;
  std::string (*text)(const std::string& type, const std::string& more);
  std::string more;
  std::int64_t parameters;  // of the model that transformers 5.24 makes of it
};

TEST(HuggingFace, EveryTypeHasTheParametersOfTransformers) {
  const auto six_blocks = [](std::string text) {
    return text.replace(text.find("layers\":2"), 9, "layers\":6");
  };
  static const auto with_comma = [](const std::string& more) {
    return more.empty() ? more : "," + more;
  };
  const auto grouped = [](const std::string& type, const std::string& more) {
    return grouped_config(type, with_comma(more));
  };
  const auto plain = [](const std::string& type, const std::string& more) {
    return small_config(type, with_comma(more));
  };
  const auto whole = [](const std::string& type, const std::string& more) {
    return R"({"model_type":")" + type + "\"" + with_comma(more) + "}";
  };
  const std::vector<GoldenConfig> all{
      {"llama", grouped, R"("attention_bias":true,"mlp_bias":true)", 200'640},
      {"llama", grouped, R"("head_dim":24,"tie_word_embeddings":true)", 228'416},
      {"mistral", grouped, R"("sliding_window":8)", 197'952},
      {"ministral", grouped, R"("head_dim":16)", 197'952},
      {"ministral3", grouped, "", 714'048},
      {"qwen2", grouped, R"("use_sliding_window":true,"sliding_window":8,"max_window_layers":3)",
       198'720},
      {"qwen3", grouped, R"("attention_bias":true)", 722'112},
      {"gemma", grouped, R"("attention_bias":true)", 1'310'144},
      {"gemma2", grouped, R"("head_dim":24)", 229'184},
      {"gemma3_text", grouped, "", 1'301'312},
      {"vaultgemma", grouped, "", 1'297'472},
      {"phi3", grouped, "", 197'952},
      {"olmo", grouped, R"("attention_bias":true)", 198'272},
      {"olmo2", grouped, "", 198'528},
      {"olmo3", grouped, "", 198'528},
      {"granite", grouped, R"("attention_bias":true,"mlp_bias":true)", 200'640},
      {"granite_swa", grouped, "", 191'576},
      {"cwm", grouped, "", 714'048},
      {"glm", grouped, "", 720'192},
      {"glm4", grouped, "", 720'960},
      {"cohere", grouped, R"("attention_bias":true,"use_qk_norm":true)", 192'896},
      {"cohere2", grouped, "", 191'168},
      {"starcoder2", grouped, "", 157'632},
      {"starcoder2", grouped, R"("use_bias":false)", 155'520},
      {"stablelm", grouped, R"("use_qkv_bias":true,"use_parallel_residual":true)", 198'784},
      {"stablelm", grouped, R"("qk_layernorm":true)", 199'360},
      {"smollm3", grouped, R"("attention_bias":true,"mlp_bias":true)", 194'240},
      {"seed_oss", grouped, R"("attention_out_bias":true,"mlp_bias":true)", 722'112},
      {"nemotron", grouped, R"("attention_bias":true,"mlp_bias":true)", 164'032},
      {"helium", grouped, R"("head_dim":16,"attention_bias":true,"mlp_bias":true)", 200'256},
      {"arcee", grouped, R"("attention_bias":true,"mlp_bias":true)", 163'200},
      {"internlm3", grouped, R"("attention_bias":true,"mlp_bias":true)", 722'112},
      {"hunyuan_v1_dense", grouped, R"("head_dim":24,"attention_bias":true)", 236'640},
      {"ernie4_5", grouped, R"("use_bias":true)", 715'712},
      {"exaone", grouped, "", 197'952},
      {"exaone4", grouped, "", 198'144},
      {"nanochat", grouped, R"("attention_bias":true)", 161'408},
      {"jais2", grouped, "", 164'032},
      {"bitnet", grouped, R"("attention_bias":true)", 200'064},
      {"persimmon", plain, "", 189'376},
      {"gpt2", whole, R"("n_embd":64,"n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100)",
       158'528},
      {"gpt2", whole,
       R"("n_embd":64,"n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100,)"
       R"("n_inner":40,"tie_word_embeddings":false)",
       81'336},
      {"gpt_bigcode", whole,
       R"("n_embd":64,"n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100)", 139'808},
      {"gpt_bigcode", whole,
       R"("n_embd":64,"n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100,)"
       R"("multi_query":false)",
       158'528},
      {"gptj", whole, R"("n_embd":64,"n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100)",
       161'828},
      {"codegen", whole, R"("n_embd":64,"n_layer":3,"n_head":4,"n_positions":32,"vocab_size":100)",
       161'828},
      {"gpt_neox", plain, "", 188'992},
      {"gpt_neox", plain, R"("attention_bias":false,"use_parallel_residual":false)", 187'456},
      {"phi", grouped, "", 163'364},
      {"phi", grouped, R"("qk_layernorm":true)", 163'748},
      {"opt", plain, R"("ffn_dim":80,"word_embed_proj_dim":64)", 172'384},
      {"opt", plain,
       R"("ffn_dim":80,"word_embed_proj_dim":64,"enable_bias":false,)"
       R"("layer_norm_elementwise_affine":false)",
       168'320},
      {"bloom", whole, R"("hidden_size":64,"n_layer":3,"n_head":4,"vocab_size":100)", 156'608},
      {"mpt", whole, R"("d_model":64,"n_heads":4,"n_layers":3,"max_seq_len":32,"vocab_size":100)",
       154'304},
      {"falcon", plain, "", 265'344},
      {"falcon", plain, R"("multi_query":false,"alibi":true,"bias":true,"parallel_attn":false)",
       306'432},
      {"falcon", plain, R"("new_decoder_architecture":true,"num_kv_heads":2)", 278'400},
      {"falcon", plain, R"("new_decoder_architecture":true,"num_ln_in_parallel_attn":1)", 302'208},
      {"mixtral", grouped, R"("num_local_experts":4,"num_experts_per_tok":2)", 531'264},
      {"qwen2_moe", grouped,
       R"("num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":24,)"
       R"("shared_expert_intermediate_size":40,"decoder_sparse_step":2)",
       222'720},
      {"qwen2_moe", grouped,
       R"("num_experts":4,"moe_intermediate_size":24,"qkv_bias":false,)"
       R"("mlp_only_layers":[0,4])",
       4'524'608},
      {"qwen3_moe", grouped,
       R"("head_dim":24,"num_local_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":24,"decoder_sparse_step":3)",
       235'616},
      {"olmoe", grouped, R"("num_experts":4,"num_experts_per_tok":2)", 531'840},
      {"flex_olmo", grouped, R"("num_experts":4,"num_experts_per_tok":2)", 531'840},
      {"phimoe", grouped,
       R"("num_local_experts":4,"num_experts_per_tok":2,"attention_bias":true,)"
       R"("lm_head_bias":true)",
       533'348},
      {"dbrx", whole,
       R"("d_model":64,"n_heads":4,"n_layers":3,"max_seq_len":32,"vocab_size":100,)"
       R"("attn_config":{"kv_n_heads":2,"rope_theta":10000.0},)"
       R"("ffn_config":{"ffn_hidden_size":24,"moe_num_experts":4,"moe_top_k":2,)"
       R"("hidden_size":64})",
       106'176},
      {"granitemoe", grouped, R"("num_local_experts":4,"num_experts_per_tok":2)", 531'264},
      {"granitemoeshared", grouped,
       R"("num_local_experts":4,"num_experts_per_tok":2,)"
       R"("shared_intermediate_size":40)",
       577'344},
      {"granitemoe_swa", grouped,
       R"("num_local_experts":4,"num_experts_per_tok":2,)"
       R"("shared_intermediate_size":40)",
       577'368},
      {"ernie4_5_moe", grouped,
       R"("moe_num_experts":4,"moe_k":2,"moe_intermediate_size":24,)"
       R"("moe_layer_start_index":1,"moe_layer_end_index":4)",
       229'456},
      {"ernie4_5_moe", grouped,
       R"("moe_num_experts":4,"moe_k":2,"moe_intermediate_size":24,)"
       R"("moe_layer_start_index":0,"moe_layer_end_index":-1,)"
       R"("moe_layer_interval":2,"moe_num_shared_experts":0)",
       192'332},
      {"glm4_moe", grouped,
       R"("head_dim":24,"n_routed_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":24,"n_shared_experts":2,"n_group":2,)"
       R"("topk_group":1,"first_k_dense_replace":2,"num_nextn_predict_layers":0,)"
       R"("attention_bias":true,"use_qk_norm":true)",
       274'144},
      {"sarvam_moe", grouped,
       R"("head_dim":24,"n_routed_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":24,"n_shared_experts":2,"n_group":2,)"
       R"("topk_group":1,"first_k_dense_replace":2,"num_nextn_predict_layers":0)",
       272'992},
      {"solar_open", grouped,
       R"("head_dim":24,"attention_bias":true,"n_routed_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":24,"n_shared_experts":2)",
       292'800},
      {"dots1", grouped,
       R"("head_dim":24,"n_routed_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":24,"n_shared_experts":2,"n_group":2,)"
       R"("topk_group":1,"first_k_dense_replace":2,"num_nextn_predict_layers":0,)"
       R"("attention_bias":true)",
       274'528},
      {"gpt_oss", grouped, R"("head_dim":24,"num_local_experts":4,"num_experts_per_tok":2)",
       575'856},
      {"llama4_text", grouped,
       R"("head_dim":24,"num_local_experts":4,"num_experts_per_tok":2,)"
       R"("interleave_moe_layer_step":2,"intermediate_size_mlp":80,)"
       R"("attention_chunk_size":8)",
       447'552},
      {"llama4_text", grouped,
       R"("num_local_experts":4,"num_experts_per_tok":2,"attention_bias":true,)"
       R"("moe_layers":[1,2,5])",
       10'324'416},
      {"minimax_m2", grouped, R"("head_dim":24,"num_local_experts":4,"num_experts_per_tok":2)",
       568'992},
      {"hunyuan_v1_moe", grouped, R"("head_dim":24,"num_experts":4,"moe_topk":2)", 679'008},
      {"afmoe", grouped,
       R"("head_dim":24,"num_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":24,"num_dense_layers":2)",
       310'640},
      {"cohere2_moe", grouped,
       R"("head_dim":16,"num_experts":4,"num_shared_experts":2,)"
       R"("attention_bias":true)",
       746'816},
      {"cohere2_moe", grouped,
       R"("num_experts":4,"first_k_dense_replace":2,)"
       R"("prefix_dense_intermediate_size":40,"head_dim":16)",
       391'872},
      {"exaone_moe", grouped,
       R"("num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":24,)"
       R"("first_k_dense_replace":2,"num_shared_experts":2)",
       236'032},
      {"hy_v3", grouped,
       R"("head_dim":24,"num_experts":4,"num_experts_per_tok":2,)"
       R"("moe_intermediate_size":24,"mlp_layer_types":["dense","sparse","dense",)"
       R"("sparse","dense","sparse"])",
       249'696},
      {"mellum", grouped,
       R"("head_dim":24,"num_local_experts":4,"num_experts_per_tok":2,)"
       R"("attention_bias":true,"moe_intermediate_size":24,)"
       R"("mlp_layer_types":["dense","sparse","dense","sparse","dense","sparse"])",
       237'408},
      {"deepseek_v2", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":20,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12,"n_routed_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":24,"n_shared_experts":2,)"
       R"("n_group":2,"topk_group":1,"first_k_dense_replace":2,)"
       R"("num_nextn_predict_layers":0)",
       219'928},
      {"deepseek_v2", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":null,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12,"n_routed_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":24,"n_shared_experts":2,)"
       R"("n_group":null,"topk_group":null,"first_k_dense_replace":5,)"
       R"("num_nextn_predict_layers":0)",
       209'056},
      {"deepseek_v3", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":20,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12,"n_routed_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":24,"n_shared_experts":2,)"
       R"("n_group":2,"topk_group":1,"first_k_dense_replace":2,)"
       R"("num_nextn_predict_layers":0)",
       219'928},
      {"glm4_moe_lite", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":20,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12,"n_routed_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":24,"n_shared_experts":2,)"
       R"("n_group":2,"topk_group":1,"first_k_dense_replace":2,)"
       R"("num_nextn_predict_layers":0,"mlp_layer_types":["dense","sparse",)"
       R"("dense","sparse","dense","sparse"])",
       210'456},
      {"sarvam_mla", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":null,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12,"n_routed_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":24,"n_shared_experts":2,)"
       R"("n_group":2,"topk_group":1,"first_k_dense_replace":2,)"
       R"("num_nextn_predict_layers":0)",
       237'472},
      {"youtu", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":20,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12)",
       175'640},
      {"minicpm3", grouped,
       R"("kv_lora_rank":16,"q_lora_rank":20,"qk_rope_head_dim":8,)"
       R"("qk_nope_head_dim":16,"v_head_dim":12)",
       175'640},
  };
  for (const GoldenConfig& one : all) {
    std::string text = one.text(one.type, one.more);
    if (text.find("layers\":2") != std::string::npos) text = six_blocks(std::move(text));
    const Model model = read_config(text).model;
    EXPECT_EQ(model.parameters(), one.parameters) << text;
    EXPECT_EQ(parse_model(to_json(model), "c.json"), model) << text;
    std::int64_t weights = 0;
    for (int layer = 0; layer < model.layers(); ++layer) {
      if (!model.is_prediction(layer)) weights += rank_parameters(model, layer, 1);
    }
    const std::int64_t table = model.vocabulary_size * model.hidden_size;
    EXPECT_EQ(weights - (model.tied_head ? table : 0), one.parameters) << text;
  }
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

TEST(HuggingFace, SequencesBeyondAWindowArePredicted) {
  Training training;
  training.sequence_length = 8192;
  const CostModel costs(find_model(sample_path("mistral_7b")), find_cluster("dgx-h100"), training);
  Model unlimited = find_model(sample_path("mistral_7b"));
  unlimited.kinds = {BlockKind{}};
  EXPECT_LT(costs.model_flops(1),
            CostModel(unlimited, find_cluster("dgx-h100"), training).model_flops(1));
}

}  // namespace
}  // namespace pipesim
