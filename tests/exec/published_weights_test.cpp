// Weights out of checkpoints and into them, by Hugging Face's names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "exec/checkpoint/disk.h"
#include "exec/checkpoint/hash.h"
#include "exec/saved/import.h"
#include "exec/saved/inspection.h"
#include "exec/saved/model_arrays.h"
#include "exec/saved/weight_file.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/layers.h"
#include "tests/local_run.h"
#include "tests/published_oracle.h"
#include "tests/tensor_files.h"

namespace pipesim {
namespace {

using exec::PublishedTensor;
using exec::TrainingJob;
using testing::input_error_of;
using testing::read_tensors;
using testing::run_locally;
using testing::TemporaryFolder;
using testing::tensor_file;
using testing::TestTensor;
using testing::TestTensors;

// All that has a published form; bytes up to 127 are its words.
std::vector<Model> published_models() {
  std::vector<Model> models;
  for (const testing::Example& example :
       {testing::gpt_example(true, 0), testing::gpt_example(false, 0),
        testing::llama_example(true, 0, 4, false), testing::llama_example(false, 0, 2, false),
        testing::llama_example(false, 0, 1, true),
        testing::with_wide_heads(testing::llama_example(false, 0, 2, false))}) {
    models.push_back(example.model);
    models.back().vocabulary_size = 128;
    models.back().mlp_size = 20;
  }
  models[1].heads = models[1].kv_heads = 2;  // can be split
  return models;
}

// Strong weights: all parts of a model count.
TestTensors random_tensors(const Model& model) {
  TestTensors tensors;
  unsigned seed = 0;
  for (const PublishedTensor& published : exec::published_tensors(model)) {
    TestTensor& tensor = tensors[published.name];
    tensor.shape = published.shape;
    tensor.numbers = testing::normals(published.size(), ++seed, 0.4F);
  }
  return tensors;
}

// Trains one layout on one iteration without changing weights.
TrainingJob still_training(const Model& model, int stages, int replicas, int tensor, int zero) {
  ScheduleRequest request;
  request.name = "1f1b";
  request.ranks = stages;
  request.microbatches = 2 / replicas;
  Training asked;
  asked.data_parallel = replicas;
  asked.zero = zero;
  TrainingJob training = testing::tiny_training(with_replicas(generate(request), asked), model);
  training.data_parallel = replicas;
  training.zero = zero;
  training.tensor_parallel = tensor;
  training.micro_batch_size = 1;
  training.sequence_length = 6;
  training.learning_rate = 0;
  training.verify = false;
  return training;
}

void export_newest(const std::string& folder, const std::string& path) {
  const exec::CheckpointSummary one = exec::find_complete_checkpoint(
      folder, {}, [](const std::string& damage) { ADD_FAILURE() << damage; });
  const exec::CheckpointReader reader(one.found.path, one.found.manifest);
  OutputFile file(path);
  exec::write_weights(reader, *one.facts.model, file);
  file.commit();
}

void import_from(const TestTensors& tensors, const Model& model, const TemporaryFolder& folder) {
  write_file(folder / "in.safetensors", tensor_file(tensors));
  exec::import_weights(folder / "in.safetensors", model, exec::machine_disk(), folder / "ck");
}

TEST(PublishedWeights, TakeEachNumberOnce) {
  for (const Model& model : published_models()) {
    std::map<std::string, std::vector<int>> counts;
    for (const exec::ModelArray& array : exec::states_of(model)) {
      counts[array.key].resize(static_cast<std::size_t>(array.size));
    }
    std::int64_t sum = 0;
    for (const PublishedTensor& tensor : exec::published_tensors(model)) {
      std::int64_t shaped = 1;
      for (const std::int64_t side : tensor.shape) shaped *= side;
      EXPECT_EQ(shaped, tensor.size()) << tensor.name;
      sum += shaped;
      ASSERT_TRUE(counts.contains(tensor.key)) << tensor.name;
      std::vector<int>& count = counts[tensor.key];
      ASSERT_EQ(tensor.rows * tensor.width, static_cast<std::int64_t>(count.size()));
      std::vector<float> places(count.size());
      for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<float>(i);
      std::vector<float> taken(static_cast<std::size_t>(shaped));
      take_published(tensor, places.data(), taken.data());
      for (const float place : taken) ++count[static_cast<std::size_t>(place)];
      std::vector<float> back(places.size(), -1);
      put_published(tensor, taken.data(), back.data());
      for (const float place : taken) EXPECT_EQ(back[static_cast<std::size_t>(place)], place);
      EXPECT_EQ(std::ranges::count(back, -1), std::ssize(back) - shaped);
    }
    EXPECT_EQ(sum, model.parameters()) << model.name;
    for (const auto& [key, count] : counts) {
      EXPECT_EQ(std::ranges::count(count, 1), std::ssize(count)) << model.name << ": " << key;
    }
  }
}

// Of 2 numbers, one head and an MLP of 1, by hand.
TEST(PublishedWeights, StandAsWrittenByHand) {
  Model model;
  model.shape_as(Architecture::llama);
  model.blocks = 1;
  model.hidden_size = 2;
  model.heads = 1;
  model.kv_heads = 1;
  model.mlp_size = 1;
  const auto taken = [&](const std::string& name, const std::vector<float>& array) {
    for (const PublishedTensor& tensor : exec::published_tensors(model)) {
      if (tensor.name != name) continue;
      std::vector<float> numbers(static_cast<std::size_t>(tensor.size()));
      take_published(tensor, array.data(), numbers.data());
      return numbers;
    }
    return std::vector<float>();
  };
  using Floats = std::vector<float>;
  // Rows by input: queries 1 2, keys 3 4, values 5 6; and 7 8, 9 10, 11 12.
  const Floats qkv{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(taken("model.layers.0.self_attn.q_proj.weight", qkv), (Floats{1, 7, 2, 8}));
  EXPECT_EQ(taken("model.layers.0.self_attn.k_proj.weight", qkv), (Floats{3, 9, 4, 10}));
  EXPECT_EQ(taken("model.layers.0.self_attn.v_proj.weight", qkv), (Floats{5, 11, 6, 12}));
  EXPECT_EQ(taken("model.layers.0.self_attn.o_proj.weight", {1, 2, 3, 4}), (Floats{1, 3, 2, 4}));
  EXPECT_EQ(taken("model.layers.0.mlp.gate_proj.weight", {1, 2, 3, 4}), (Floats{1, 3}));
  EXPECT_EQ(taken("model.layers.0.mlp.up_proj.weight", {1, 2, 3, 4}), (Floats{2, 4}));
  EXPECT_EQ(taken("model.layers.0.mlp.down_proj.weight", {1, 2}), (Floats{1, 2}));
  model.shape_as(Architecture::gpt);
  EXPECT_EQ(taken("transformer.h.0.attn.c_attn.weight", qkv), qkv);
  EXPECT_EQ(taken("transformer.h.0.mlp.c_proj.weight", {1, 2}), (Floats{1, 2}));
}

// In, trained by nothing in some layout, and out: the same bits.
TEST(PublishedWeights, SurviveEveryLayoutToTheByte) {
  for (const Model& model : published_models()) {
    const TestTensors tensors = random_tensors(model);
    std::string first;
    for (const auto& [stages, replicas, tensor, zero] : {std::tuple(1, 1, 1, 0),
                                                         {2, 1, 1, 0},
                                                         {1, 2, 1, 3},
                                                         {2, 2, 1, 1},
                                                         {1, 1, 2, 0},
                                                         {2, 1, 2, 0}}) {
      if (model.kv_heads % tensor != 0) continue;
      const TemporaryFolder folder;
      import_from(tensors, model, folder);
      TrainingJob training = still_training(model, stages, replicas, tensor, zero);
      training.resume = folder / "ck";
      training.saves.emplace();
      training.saves->folder = folder / "ck";
      training.saves->every = 1;
      const exec::RunResult result = run_locally(training);
      EXPECT_EQ(result.resumed_at, 0);
      EXPECT_EQ(exec::list_checkpoints(folder / "ck").by_age.front().found.manifest.iteration, 1);
      export_newest(folder / "ck", folder / "out.safetensors");
      const TestTensors out = read_tensors(folder / "out.safetensors");
      ASSERT_EQ(out.size(), tensors.size()) << model.name;
      for (const auto& [name, tensor_out] : out) {
        EXPECT_EQ(tensor_out.shape, tensors.at(name).shape) << name;
        EXPECT_EQ(tensor_out.raw(), tensors.at(name).raw()) << model.name << ": " << name;
      }
      const std::string bytes = read_file(folder / "out.safetensors");
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << model.name << ", " << stages << " stages";
    }
  }
}

// What transformers would compute of these weights is what pipeexec computes.
TEST(PublishedWeights, MeanWhatTransformersMeans) {
  for (const Model& model : published_models()) {
    const TemporaryFolder folder;
    const TestTensors tensors = random_tensors(model);
    import_from(tensors, model, folder);
    TrainingJob training = still_training(model, 1, 1, 1, 0);
    training.resume = folder / "ck";
    const double measured = run_locally(training).losses.at(0);
    const testing::PublishedOracle oracle(model, tensors);
    double expected = 0;
    for (std::int64_t sequence = 0; sequence < 2; ++sequence) {
      const exec::Sample sample =
          exec::draw_sample(training.text, training.seed, 0, sequence, 1, training.sequence_length);
      expected += oracle.loss(sample.tokens, sample.targets) / 2;
    }
    EXPECT_NEAR(measured, expected, 2e-5 * expected) << model.name;
  }
}

// Every number of 16 bits, by its definition.
TEST(PublishedWeights, ShortNumbersAreConverted) {
  Model model = published_models().front();
  model.blocks = 1;
  model.hidden_size = 512;
  model.heads = model.kv_heads = 1;
  TestTensors tensors = random_tensors(model);
  TestTensor& table = tensors.at("transformer.wte.weight");
  ASSERT_EQ(table.numbers.size(), 65536U);
  std::string bits;
  for (int i = 0; i < 65536; ++i) {
    const auto own = static_cast<std::uint16_t>(i);
    bits.append(reinterpret_cast<const char*>(&own), 2);
  }
  table.bytes = bits;
  for (const std::string& type : {std::string("F16"), std::string("BF16")}) {
    table.type = type;
    const int fraction_bits = type == "F16" ? 10 : 7;
    const int bias = type == "F16" ? 15 : 127;
    const std::string file = tensor_file(tensors);
    const exec::WeightArrays arrays =
        exec::read_weights(std::as_bytes(std::span(file)), "f", model);
    const std::vector<float>& numbers = arrays.at("layers.0.table");
    for (int i = 0; i < 65536; ++i) {
      const int fraction = i & ((1 << fraction_bits) - 1);
      const int exponent = (i & 0x7fff) >> fraction_bits;
      const float number = numbers[static_cast<std::size_t>(i)];
      EXPECT_EQ(std::signbit(number), i >= 0x8000) << type << i;
      if (exponent == (type == "F16" ? 31 : 255)) {
        EXPECT_EQ(std::isinf(number), fraction == 0) << type << i;
        EXPECT_EQ(std::isnan(number), fraction != 0) << type << i;
        continue;
      }
      const double size = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                        : std::ldexp(fraction + (1 << fraction_bits),
                                                     exponent - bias - fraction_bits);
      EXPECT_EQ(std::abs(double{number}), size) << type << i;
    }
  }
}

TEST(PublishedWeights, WhatDoesNotFitIsNamed) {
  const Model gpt = published_models()[0];    // tied
  const Model llama = published_models()[3];  // untied
  const auto refusal = [&](const Model& model, const std::function<void(TestTensors&)>& change) {
    TestTensors tensors = random_tensors(model);
    change(tensors);
    const std::string file = tensor_file(tensors);
    return input_error_of(
        [&] { exec::read_weights(std::as_bytes(std::span(file)), "in.safetensors", model); });
  };
  const auto expect = [&](const Model& model, const std::string& part,
                          const std::function<void(TestTensors&)>& change) {
    const std::string error = refusal(model, change);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(gpt,
         "in.safetensors: lacks 'transformer.h.1.mlp.c_fc.bias' of the shape [20], which model",
         [](TestTensors& all) { all.erase("transformer.h.1.mlp.c_fc.bias"); });
  expect(llama, "lacks 'lm_head.weight' of the shape [128, 16]",
         [](TestTensors& all) { all.erase("lm_head.weight"); });
  expect(gpt, "has 'transformer.h.2.ln_1.weight', for which model 'gpt, tied' has no place",
         [](TestTensors& all) {
           all["transformer.h.2.ln_1.weight"] = all["transformer.h.1.ln_1.weight"];
         });
  expect(llama, "'model.layers.0.self_attn.k_proj.weight' has the shape [16, 8], and model",
         [](TestTensors& all) {
           all["model.layers.0.self_attn.k_proj.weight"].shape = {16, 8};
         });
  expect(llama, "needs [8, 16]", [](TestTensors& all) {
    all["model.layers.0.self_attn.k_proj.weight"].shape = {16, 8};
  });
  expect(gpt, "'transformer.ln_f.bias' has type I32; give F32, F16 or BF16", [](TestTensors& all) {
    TestTensor& tensor = all["transformer.ln_f.bias"];
    tensor.bytes = tensor.raw();
    tensor.type = "I32";
  });
  expect(gpt, "'lm_head.weight' is not 'transformer.wte.weight', and model", [](TestTensors& all) {
    all["lm_head.weight"] = all["transformer.wte.weight"];
    all["lm_head.weight"].numbers[5] += 1;
  });
  // What else published files have.
  EXPECT_EQ(refusal(gpt,
                    [](TestTensors& all) {
                      all["lm_head.weight"] = all["transformer.wte.weight"];
                      all["transformer.h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
                      all["transformer.h.0.attn.masked_bias"] = {{}, {-1e4F}};
                    }),
            testing::no_error);
  EXPECT_EQ(refusal(gpt,
                    [](TestTensors& all) {
                      TestTensors bare;
                      for (const auto& [name, tensor] : all) {
                        bare[name.substr(std::strlen("transformer."))] = tensor;
                      }
                      all = bare;
                    }),
            testing::no_error);
  EXPECT_EQ(refusal(llama,
                    [](TestTensors& all) {
                      all["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{2}, {1, 2}};
                    }),
            testing::no_error);
}

TEST(PublishedWeights, OtherModelsAreRefused) {
  const auto refusal = [](const Model& model) {
    return input_error_of([&] { exec::check_publishable(model, "ck"); });
  };
  EXPECT_NE(refusal(testing::mlp_example(true, 0).model).find("ck: 'mlp, tied' has no form"),
            std::string::npos);
  Model shared = testing::gpt_example(true, 0).model;
  shared.kv_heads = 1;
  EXPECT_NE(refusal(shared).find("its heads share keys and values"), std::string::npos);
  for (const Model& model : published_models()) EXPECT_EQ(refusal(model), testing::no_error);
}

TEST(PublishedWeights, ConfigurationsSayWhatTheModelIs) {
  const std::vector<Model> models = published_models();
  const auto config_of = [](const Model& model) {
    return nlohmann::json::parse(exec::published_config(model));
  };
  const auto gpt = config_of(models[0]);
  EXPECT_EQ(gpt["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(gpt["n_layer"], 2);
  EXPECT_EQ(gpt["n_inner"], 20);
  EXPECT_EQ(gpt["activation_function"], "gelu_new");
  EXPECT_EQ(gpt["layer_norm_epsilon"], 1e-5);
  EXPECT_EQ(gpt["tie_word_embeddings"], true);
  const auto llama = config_of(models[3]);
  EXPECT_EQ(llama["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(llama["num_key_value_heads"], 2);
  EXPECT_EQ(llama["rms_norm_eps"], 1e-5);
  EXPECT_EQ(llama["rope_theta"], 50);
  EXPECT_EQ(llama["tie_word_embeddings"], false);
  EXPECT_EQ(config_of(models[4])["model_type"], "qwen2");
}

// ---- What is not whole

class Inspected : public ::testing::Test {
 protected:
  Inspected() {
    TrainingJob training = still_training(model_, 2, 1, 1, 0);
    training.iterations = 3;
    training.accumulate = 2;
    training.saves.emplace();
    training.saves->folder = folder_ / "ck";
    training.saves->every = 1;
    training.saves->keep = 9;
    run_locally(training);
  }
  exec::CheckpointSummary at(std::int64_t iteration) const {
    return choose_checkpoint(exec::list_checkpoints(folder_ / "ck"), "ck", iteration);
  }
  std::string fault_at(std::int64_t iteration) const {
    return exec::find_fault(at(iteration)).value_or("");
  }
  // Writes files anew with other arrays, and a manifest that fits.
  void rewrite(std::int64_t iteration, const std::function<void(TestTensors&)>& change) {
    const exec::CheckpointSummary one = at(iteration);
    exec::Manifest manifest = one.found.manifest;
    for (exec::CheckpointFile& file : manifest.files) {
      const std::string path = one.found.path + "/" + file.name;
      TestTensors tensors = read_tensors(path);
      change(tensors);
      std::string bytes = tensor_file(tensors);
      // Numbers are mapped as they stand.
      std::uint64_t size = 0;
      std::memcpy(&size, bytes.data(), 8);
      const std::size_t missing = (64 - (size + 8) % 64) % 64;
      bytes.insert(8 + size, missing, ' ');
      size += missing;
      std::memcpy(bytes.data(), &size, 8);
      write_file(path, bytes);
      file.bytes = std::ssize(bytes);
      file.hash = exec::hash_of(bytes);
    }
    write_file(one.found.path + "/manifest.json", to_text(manifest));
  }

  Model model_ = published_models()[1];
  TemporaryFolder folder_;
};

TEST_F(Inspected, EachIsWhole) {
  for (const int iteration : {1, 2, 3}) EXPECT_EQ(fault_at(iteration), "");
  rewrite(1, [](TestTensors&) {});
  EXPECT_EQ(fault_at(1), "");
}

TEST_F(Inspected, FaultsAreFound) {
  rewrite(2, [](TestTensors& all) { all.erase("layers.1.qkv.matrix.second_moment"); });
  EXPECT_NE(fault_at(2).find("array 'layers.1.qkv.matrix.second_moment' is missing or incomplete"),
            std::string::npos)
      << fault_at(2);
  rewrite(3, [](TestTensors& all) { all["layers.9.x.weight"] = {{1}, {0}}; });
  EXPECT_NE(fault_at(3).find("array 'layers.9.x.weight' is"), std::string::npos) << fault_at(3);
  // Within a step there are sums, too.
  rewrite(1, [](TestTensors& all) {
    std::erase_if(all, [](const auto& item) {
      return item.first.starts_with("layers.2.up.matrix.gradient");
    });
  });
  EXPECT_NE(fault_at(1).find("array 'layers.2.up.matrix.gradient' is missing or incomplete"),
            std::string::npos)
      << fault_at(1);
}

// As many numbers as there should be, but the first half of them twice.
TEST_F(Inspected, APartThatStandsTwiceIsNoWhole) {
  const std::string key = "layers.0.positions.weight";
  rewrite(2, [&](TestTensors& all) {
    const auto found = all.find(key);
    if (found == all.end()) return;  // the other rank's file
    TestTensor half = found->second;
    const std::size_t size = half.numbers.size();
    half.numbers.resize(size / 2);
    half.shape = {std::ssize(half.numbers)};
    all.erase(found);
    const auto range = [](std::size_t end) { return "0:" + std::to_string(end); };
    all[key + "[" + range(size / 2) + "]"] = half;
    all[key + "[" + std::to_string(size) + ";0:1;" + range(size / 2) + ";" + range(size / 2) +
        "]"] = half;
  });
  EXPECT_NE(fault_at(2).find("'layers.0.positions.weight' is missing or incomplete"),
            std::string::npos)
      << fault_at(2);
}

TEST_F(Inspected, TheNewestWholeOneIsFound) {
  const std::string file = folder_ / "ck/iteration-00000003/rank-0001.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file(file, bytes);
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& damage) { warnings.push_back(damage); };
  EXPECT_EQ(exec::find_complete_checkpoint(folder_ / "ck", {}, warn).found.manifest.iteration, 2);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("rank-0001.safetensors: is altered"), std::string::npos);
  const std::string error =
      input_error_of([&] { exec::find_complete_checkpoint(folder_ / "ck", 3, warn); });
  EXPECT_NE(error.find("is altered"), std::string::npos) << error;
}

TEST_F(Inspected, NumbersAddUpByLayer) {
  for (const int iteration : {1, 2}) {
    const std::vector<exec::LayerNumbers> layers = exec::numbers_by_layer(at(iteration));
    ASSERT_EQ(layers.size(), 4U);
    EXPECT_EQ(layers[0].name, "embedding");
    EXPECT_EQ(layers[2].name, "block 1");
    EXPECT_EQ(layers[3].name, "head");
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::int64_t own = model_.layer_parameters(static_cast<int>(i));
      EXPECT_EQ(layers[i].weights, own);
      EXPECT_EQ(layers[i].moments, 2 * own);
      EXPECT_EQ(layers[i].gradients, iteration == 1 ? own : 0);
    }
    EXPECT_EQ(layers[1].parameters, 12);
  }
}

// A training that diverges has losses that JSON can't say.
TEST_F(Inspected, LossesThatAreNoNumbersAreRead) {
  exec::CheckpointSummary one = at(2);
  auto facts = nlohmann::json::parse(one.found.manifest.training);
  facts["losses"] = nlohmann::json::array({nullptr});
  one.found.manifest.training = facts.dump();
  EXPECT_TRUE(std::isnan(exec::facts_of(one.found).losses.at(0)));
}

}  // namespace
}  // namespace pipesim
