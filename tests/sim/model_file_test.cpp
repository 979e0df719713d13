// Models by name and from files: what is read, what is refused and how, and how
// many parameters their layers have.
#include <gtest/gtest.h>

#include <map>
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

// Every matrix and vector of a block as they are written down one by one: where
// a token goes, and in experts that it does not go to.
struct Sizes {
  std::int64_t used = 0;
  std::int64_t idle = 0;
};

Sizes block_sizes(const Model& model) {
  const std::int64_t h = model.hidden_size;
  const std::int64_t f = model.mlp_size;
  if (model.architecture == Architecture::mlp) return {.used = h * h + h};
  Sizes sizes;
  const bool has_biases = model.architecture == Architecture::gpt;
  const auto linear = [&](std::int64_t inputs, std::int64_t outputs) {
    return inputs * outputs + (has_biases ? outputs : 0);
  };
  const std::int64_t norm = has_biases ? 2 * h : h;
  sizes.used += norm;
  for (std::int64_t head = 0; head < model.heads; ++head) {
    sizes.used += linear(h, h / model.heads);  // its queries
    if (head < model.kv_heads) sizes.used += 2 * linear(h, h / model.heads);
  }
  if (model.biases.qkv) sizes.used += h / model.heads * (model.heads + 2 * model.kv_heads);
  sizes.used += linear(h, h);
  sizes.used += norm;
  if (model.experts > 1) sizes.used += h * model.experts;
  for (std::int64_t expert = 0; expert < model.experts; ++expert) {
    std::int64_t size = linear(h, f) + linear(f, h);
    if (model.architecture == Architecture::llama) size += linear(h, f);  // the gate
    (expert < model.experts_per_token ? sizes.used : sizes.idle) += size;
  }
  return sizes;
}

TEST(ModelFile, ParametersAreThoseOfEveryMatrix) {
  for (const Architecture architecture :
       {Architecture::gpt, Architecture::llama, Architecture::mlp}) {
    for (const std::int64_t kv_heads : {1, 2, 6}) {
      for (const std::int64_t experts : {1, 2, 5}) {
        for (const bool tied : {false, true}) {
          Model model{.name = "small"};
          model.shape_as(architecture);
          model.blocks = 3;
          model.hidden_size = 24;
          model.heads = 6;
          model.kv_heads = kv_heads;
          model.mlp_size = 17;
          model.experts = experts;
          model.experts_per_token = (experts + 1) / 2;
          model.vocabulary_size = 11;
          model.max_sequence_length = 7;
          model.tied_head = tied;
          model.biases.qkv = architecture == Architecture::llama && tied;
          const Sizes block = block_sizes(model);
          const std::int64_t positions = architecture == Architecture::llama ? 0 : 7 * 24;
          std::int64_t norm = 24;
          if (architecture == Architecture::gpt) norm = 48;
          if (architecture == Architecture::mlp) norm = 0;
          EXPECT_EQ(model.layer_parameters(0), 11 * 24 + positions);
          EXPECT_EQ(model.layer_parameters(4), 11 * 24 + norm);
          for (const int layer : {1, 2, 3}) {
            EXPECT_EQ(model.layer_parameters(layer), block.used + block.idle);
          }
          const std::int64_t ends = 11 * 24 * (tied ? 1 : 2) + positions + norm;
          EXPECT_EQ(model.parameters(), ends + 3 * (block.used + block.idle));
          EXPECT_EQ(model.active_parameters(), ends + 3 * block.used);
        }
      }
    }
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
  EXPECT_EQ(examples, (std::set<std::string>{"a tower", "four blocks"}));
  for (const Model& model : known_models()) {
    EXPECT_NE(format.find("`" + model.name + "`"), std::string::npos) << model.name;
  }
}

}  // namespace
}  // namespace pipesim
