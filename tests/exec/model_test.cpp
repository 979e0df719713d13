// Layers against a model that computes in double from the definitions, and
// their gradients against its central differences.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "tests/errors.h"
#include "tests/layers.h"

namespace pipesim::exec {
namespace {

using testing::bits;
using testing::differences;
using testing::Doubles;
using testing::every_example;
using testing::Example;
using testing::expect_close;
using testing::expect_near_as_a_whole;
using testing::gpt_example;
using testing::llama_example;
using testing::mlp_example;
using testing::oracle_losses;
using testing::read;
using testing::tiny_example;
using testing::Tokens;
using testing::Weights;
using testing::wide;

// Losses and gradients go through some hundred roundings to float.
constexpr double loss_tolerance = 5e-6;
// Rounding of float32 through these layers: 6e-6 on the CPU, 2.04e-5 on an emulated GPU at most.
constexpr double gradient_tolerance = 4e-5;

// All layers of a model, in the order of a model without a pipeline.
class Layers {
 public:
  explicit Layers(Example example, std::uint64_t seed = testing::example_seed)
      : example_(std::move(example)), device_(testing::make_test_device()), pool_(*device_) {
    const LayerSetup setup{*device_,          pool_, example_.model,  example_.batch,
                           example_.sequence, seed,  Number::float32, example_.attention};
    for (int i = 0; i < example_.model.layers(); ++i) layers_.push_back(make_layer(setup, i));
    store_ = std::make_unique<ParameterStore>(*device_, pool_, Number::float32, plain(layers_));
  }

  void strengthen() {
    for (auto& layer : layers_) testing::strengthen(*device_, *layer, example_.model);
  }

  std::vector<float> forward(Tokens& tokens, std::vector<Saved>& saved) {
    saved.resize(layers_.size());
    Tensor x;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i]->forward(tokens.microbatch(), std::move(x), saved[i]);
    }
    EXPECT_TRUE(x.empty());
    return tokens.losses();
  }
  void backward_input(Tokens& tokens, std::vector<Saved>& saved) {
    Tensor dy;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      dy = layers_[i]->backward_input(tokens.microbatch(), std::move(dy), saved[i]);
    }
    EXPECT_TRUE(dy.empty());
  }
  void backward_weight(Tokens& tokens, std::vector<Saved>& saved) {
    for (std::size_t i = layers_.size(); i-- > 0;) {
      layers_[i]->backward_weight(tokens.microbatch(), saved[i]);
      EXPECT_TRUE(saved[i].empty());
    }
  }
  void pass(Tokens& tokens) {
    std::vector<Saved> saved;
    forward(tokens, saved);
    backward_input(tokens, saved);
    backward_weight(tokens, saved);
  }
  void start_iteration() {
    for (auto& layer : layers_) layer->start_sums();
  }

  Weights weights() const { return read_all(&Parameter::weight); }
  Weights gradients() const { return read_all(&Parameter::gradient); }

  const Example& example() const { return example_; }
  Device& device() { return *device_; }
  Layer& layer(int index) { return *layers_[static_cast<std::size_t>(index)]; }

 private:
  Weights read_all(Slice Parameter::*which) const {
    Weights all;
    for (const auto& layer : layers_) {
      for (const Parameter& parameter : layer->parameters()) {
        EXPECT_TRUE(all.emplace(parameter.name, wide(read(*device_, parameter.*which))).second)
            << parameter.name << " is given twice";
      }
    }
    return all;
  }

  Example example_;
  std::unique_ptr<Device> device_;
  Pool pool_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<ParameterStore> store_;
};

double sum(const Doubles& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

// The derivative of the sum of losses by those elements of the parameters,
// which change together.
Doubles derivative(const Model& model, Weights weights, const std::vector<std::string>& names,
                   const std::vector<std::size_t>& at, const testing::OracleBatch& batch) {
  return differences(weights.at(names.front()), at, [&](const Doubles& changed) {
    for (const std::string& name : names) weights.at(name) = changed;
    return sum(oracle_losses(model, weights, batch));
  });
}

Doubles chosen(const Doubles& all, const std::vector<std::size_t>& at) {
  Doubles some;
  for (const std::size_t i : at) some.push_back(all[i]);
  return some;
}

void on_every_example(const std::function<void(const Example&)>& check) {
  for (const Example& example : every_example()) {
    SCOPED_TRACE(example.model.name);
    check(example);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// ---- What layers keep

std::int64_t numbers_in(const Saved& saved) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : saved) sum += tensor.size();
  return sum;
}

TEST(Model, LayersKeepAsManyNumbersAsIsToldBefore) {
  on_every_example([](const Example& example) {
    Layers layers(example);
    Tokens tokens(layers.device(), example, 1, 0);
    std::vector<Saved> saved;
    layers.forward(tokens, saved);
    for (int i = 0; i < example.model.layers(); ++i) {
      const double told = kept_numbers(example.model, static_cast<double>(example.batch),
                                       static_cast<double>(example.sequence), i, example.attention);
      // A few a row or parameter aside.
      const auto kept = static_cast<double>(numbers_in(saved[static_cast<std::size_t>(i)]));
      EXPECT_LE(kept, told + 4 * static_cast<double>(example.rows())) << i;
      if (example.model.is_embedding(i) || example.model.is_head(i)) continue;
      // GPUs keep no scores whatever is asked for.
      if (layers.device().host_reaches_memory()) {
        EXPECT_GE(kept, told) << i;
      }
    }
  });
}

// What is computed again is not kept: results of both norms, of the activation, the scores.
TEST(Model, PartsThatAreComputedAgainAreToldApart) {
  Model model = gpt_example(true, 0).model;
  for (const Architecture architecture : {Architecture::gpt, Architecture::llama}) {
    model.shape_as(architecture);
    const auto freed = [&](const Recompute& recompute) {
      return kept_numbers(model, 2, 7, 1, Attention::unfused) -
             kept_numbers(model, 2, 7, 1, Attention::unfused, recompute);
    };
    EXPECT_EQ(freed({}), 0);
    EXPECT_EQ(freed({.norms = true}), 2 * 7 * 2 * 12);
    EXPECT_EQ(freed({.activation = true}), 2 * 7 * 19);
    EXPECT_EQ(freed({.attention = true}), 2 * 3 * 7 * 7);
    EXPECT_EQ(freed({.attention = true, .norms = true, .activation = true}),
              2 * 7 * 2 * 12 + 2 * 7 * 19 + 2 * 3 * 7 * 7);
    for (const int end : {0, model.layers() - 1}) {
      EXPECT_EQ(kept_numbers(model, 2, 7, end, Attention::unfused),
                kept_numbers(model, 2, 7, end, Attention::unfused,
                             {.attention = true, .norms = true, .activation = true}));
    }
  }
}

// ---- Against the oracle

TEST(Model, LossesAreTheOracles) {
  on_every_example([](const Example& example) {
    Layers layers(example);
    for (const bool strong : {false, true}) {
      if (strong) layers.strengthen();
      const Weights weights = layers.weights();
      for (const std::uint32_t step : {0U, 5U}) {
        for (const std::uint32_t index : {0U, 3U}) {
          Tokens tokens(layers.device(), example, step, index);
          std::vector<Saved> saved;
          const auto losses = layers.forward(tokens, saved);
          const Doubles want = oracle_losses(example.model, weights, tokens.oracle());
          expect_close(losses, want, loss_tolerance, loss_tolerance, "loss");
        }
      }
    }
  });
}

TEST(Model, GradientsAreTheOraclesDifferences) {
  on_every_example([](const Example& example) {
    Layers layers(example);
    layers.strengthen();
    Tokens tokens(layers.device(), example, 2, 1);
    layers.pass(tokens);
    const Weights weights = layers.weights();
    unsigned seed = 0;
    for (const auto& [name, gradient] : layers.gradients()) {
      const auto at = testing::some_of(gradient.size(), ++seed);
      const Doubles want = derivative(example.model, weights, {name}, at, tokens.oracle());
      expect_near_as_a_whole(chosen(gradient, at), want, gradient_tolerance, gradient_tolerance,
                             name);
    }
  });
}

TEST(Model, TheGradientOfASharedMatrixIsTheSumOfBothUses) {
  for (const Example& example : {gpt_example(true, 150'000), mlp_example(true, 0),
                                 tiny_example(true), llama_example(true, 150'000, 2, true)}) {
    Layers layers(example);
    layers.strengthen();
    Tokens tokens(layers.device(), example, 0, 0);
    layers.pass(tokens);
    const std::vector<std::string> shared{"embedding table", "head matrix"};
    const Weights gradients = layers.gradients();
    Doubles both = gradients.at(shared[0]);
    for (std::size_t i = 0; i < both.size(); ++i) both[i] += gradients.at(shared[1])[i];
    const auto at = testing::every_index(both.size());
    expect_near_as_a_whole(both,
                           derivative(example.model, layers.weights(), shared, at, tokens.oracle()),
                           gradient_tolerance, gradient_tolerance, "the shared matrix");
  }
}

// ---- Sums of gradients

TEST(Model, GradientsAddUpOverMicrobatchesWhateverTheOrderOfWeightGradients) {
  on_every_example([](const Example& example) {
    Layers layers(example);
    layers.strengthen();
    Tokens first(layers.device(), example, 1, 0);
    Tokens second(layers.device(), example, 1, 1);
    layers.pass(first);
    const Weights of_first = layers.gradients();
    layers.start_iteration();
    layers.pass(second);
    const Weights of_second = layers.gradients();

    layers.start_iteration();
    std::vector<Saved> saved_first;
    std::vector<Saved> saved_second;
    layers.forward(first, saved_first);
    layers.forward(second, saved_second);
    layers.backward_input(first, saved_first);
    layers.backward_input(second, saved_second);
    layers.backward_weight(second, saved_second);
    layers.backward_weight(first, saved_first);
    for (const auto& [name, got] : layers.gradients()) {
      Doubles want = of_first.at(name);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += of_second.at(name)[i];
      expect_near_as_a_whole(got, want, 1e-6, 1e-6, name);
    }

    layers.start_iteration();
    layers.pass(first);
    EXPECT_EQ(layers.gradients(), of_first);
  });
}

// ---- Initial weights

double deviation(const Doubles& x) {
  const double mean = sum(x) / static_cast<double>(x.size());
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(x.size()));
}

TEST(Model, StartsAsGpt2Does) {
  Example example;
  example.model = {.name = "", .blocks = 8, .tied_head = false};
  const Weights weights = Layers(example).weights();
  std::int64_t parameters = 0;
  for (const auto& [name, values] : weights) {
    parameters += static_cast<std::int64_t>(values.size());
    if (name.ends_with("gamma") || name.ends_with("bias") || name.ends_with("beta")) {
      EXPECT_EQ(values, Doubles(values.size(), name.ends_with("gamma") ? 1 : 0)) << name;
      continue;
    }
    const bool added = name.ends_with("out matrix") || name.ends_with("down matrix");
    const double want = added ? 0.02 / std::sqrt(16) : 0.02;
    EXPECT_NEAR(deviation(values), want, 0.05 * want) << name;
    EXPECT_NEAR(sum(values) / static_cast<double>(values.size()), 0, 0.05 * want) << name;
  }
  EXPECT_EQ(parameters, example.model.parameters());
  EXPECT_EQ(weights.size(), 2U + 8 * 12 + 3);
  EXPECT_NE(weights.at("block 1 up matrix"), weights.at("block 2 up matrix"));
  EXPECT_NE(weights.at("head matrix"), weights.at("embedding table"));
}

TEST(Model, ALlamaStartsWithoutBiasesButThoseAskedFor) {
  for (const bool qkv_bias : {false, true}) {
    Example example = llama_example(false, 0, 2, qkv_bias);
    example.model.hidden_size = 96;
    const Weights weights = Layers(example).weights();
    for (const auto& [name, values] : weights) {
      EXPECT_FALSE(name.ends_with("beta")) << name;
      EXPECT_EQ(name.ends_with("bias"), qkv_bias && name.ends_with("qkv bias")) << name;
      const bool added = name.ends_with("out matrix") || name.ends_with("down matrix");
      const double want = added ? 0.02 / std::sqrt(4) : 0.02;
      if (name.ends_with("matrix")) {
        EXPECT_NEAR(deviation(values), want, 0.1 * want) << name;
      } else if (!name.ends_with("table")) {
        EXPECT_EQ(values, Doubles(values.size(), name.ends_with("gamma") ? 1 : 0)) << name;
      }
    }
    // Embedding and head; of a block two norms, four matrices.
    EXPECT_EQ(weights.size(), 1U + 2 * (qkv_bias ? 7 : 6) + 2);
  }
}

TEST(Model, WhatHasNoLayersIsRefused) {
  const auto refusal = [](const Model& model) {
    return testing::input_error_of([&] { check_trainable(model, "--model"); });
  };
  for (const Example& example : every_example()) {
    EXPECT_EQ(testing::error_of([&] { check_trainable(example.model, "--model"); }),
              testing::no_error);
  }
  Model model = llama_example(false, 0, 2, false).model;
  model.name = "mine";
  model.hidden_size = 20;
  EXPECT_EQ(refusal(model),
            "--model: pipeexec can't train 'mine': its heads have 5 numbers, and rotary positions "
            "turn pairs; give it heads of an even size");
  model.hidden_size = 16;
  model.experts = 2;
  EXPECT_EQ(refusal(model),
            "--model: pipeexec can't train 'mine': it lacks experts; give a gpt or llama without "
            "experts, or an mlp, or have pipesim predict this one");
  model.experts = 1;
  model.qk_norm = QkNorm::heads;
  EXPECT_NE(refusal(model).find("it lacks norms of queries and keys"), std::string::npos);
  model.qk_norm = QkNorm::none;
  model.kinds.front().window = 8;
  EXPECT_NE(refusal(model).find("its attention looks back over all tokens"), std::string::npos);
  Model gpt = gpt_example(false, 0).model;
  gpt.positions = Positions::rotary;
  EXPECT_NE(refusal(gpt).find("it lacks rotary positions in a gpt"), std::string::npos);
}

// A tied matrix is in both ends here.
TEST(Model, ParametersAreAsManyAsTheDescriptionSays) {
  on_every_example([](const Example& example) {
    Layers layers(example);
    for (int i = 0; i < example.model.layers(); ++i) {
      std::int64_t parameters = 0;
      for (const Parameter& parameter : layers.layer(i).parameters()) parameters += parameter.size;
      EXPECT_EQ(parameters, example.model.layer_parameters(i)) << i;
    }
  });
}

TEST(Model, APlainMlpStartsAsHeAndOthersDo) {
  Example example = mlp_example(false, 0);
  example.model.hidden_size = 96;
  const Weights weights = Layers(example).weights();
  EXPECT_NEAR(deviation(weights.at("embedding table")), 1, 0.05);
  EXPECT_NEAR(deviation(weights.at("block 1 matrix")), std::sqrt(2.0 / 96), 0.05 * 0.15);
  EXPECT_NEAR(deviation(weights.at("head matrix")), 0.02, 0.05 * 0.02);
  EXPECT_EQ(weights.at("block 1 bias"), Doubles(96));
}

TEST(Model, InitialWeightsDependOnSeedAndLayerAlone) {
  on_every_example([](const Example& example) {
    Layers together(example);
    EXPECT_NE(Layers(example, 1).weights(), together.weights());
    for (int i = example.model.layers() - 1; i >= 0; --i) {
      const auto device = testing::make_test_device();
      Pool pool(*device);
      // Nor on the microbatch's size.
      const auto alone = make_layer({*device, pool, example.model, 1, 2, testing::example_seed}, i);
      const ParameterStore store(*device, pool, Number::float32, {alone.get()});
      ASSERT_EQ(alone->parameters().size(), together.layer(i).parameters().size());
      for (std::size_t k = 0; k < alone->parameters().size(); ++k) {
        const Parameter& parameter = alone->parameters()[k];
        EXPECT_EQ(bits(read(*device, parameter.weight)),
                  bits(read(together.device(), together.layer(i).parameters()[k].weight)))
            << parameter.name;
        for (const Slice* zero : {&parameter.gradient, &parameter.first, &parameter.second}) {
          EXPECT_EQ(read(*device, *zero),
                    std::vector<float>(static_cast<std::size_t>(zero->size())));
        }
      }
    }
    const Weights weights = together.weights();
    EXPECT_EQ(weights.at("head matrix") == weights.at("embedding table"), example.model.tied_head);
  });
}

TEST(Model, WeightsDecayInMatricesAndTheTableOnly) {
  on_every_example([](const Example& example) {
    Layers layers(example);
    for (int i = 0; i < example.model.layers(); ++i) {
      for (const Parameter& parameter : layers.layer(i).parameters()) {
        EXPECT_EQ(parameter.decays,
                  parameter.name.ends_with("matrix") || parameter.name.ends_with("table"))
            << parameter.name;
      }
    }
  });
}

// ---- Dropout

// What a block's two dropouts keep: with matrices of 0, an input of 0, and
// biases of 1 and 3, its output is a 1 and a 3 for what each lets through,
// twice as large as half of it is dropped.
std::vector<float> masks(std::uint64_t seed, int layer, std::uint32_t step,
                         std::int64_t first_sequence, std::int64_t batch = 2) {
  Example example = gpt_example(true, 500'000);
  example.batch = batch;
  const auto device = testing::make_test_device();
  Pool pool(*device);
  const auto block =
      make_layer({*device, pool, example.model, example.batch, example.sequence, seed}, layer);
  const ParameterStore store(*device, pool, Number::float32, {block.get()});
  for (const Parameter& parameter : block->parameters()) {
    float value = 0;
    if (parameter.name.ends_with("out bias")) value = 1;
    if (parameter.name.ends_with("down bias")) value = 3;
    device->fill(parameter.weight.size(), parameter.weight.data(), value);
  }
  Tensor x = pool.take(example.rows() * example.model.hidden_size, Use::activations);
  device->fill(x.size(), x.data(), 0);
  Saved saved;
  return read(*device, block->forward({.step = step, .first_sequence = first_sequence},
                                      std::move(x), saved));
}

TEST(Model, DropoutDependsOnSeedLayerStepSequenceAndSite) {
  const auto usual = masks(7, 1, 3, 4);
  EXPECT_EQ(masks(7, 1, 3, 4), usual);
  EXPECT_NE(masks(8, 1, 3, 4), usual);
  EXPECT_NE(masks(7 + (std::uint64_t{1} << 32), 1, 3, 4), usual);
  EXPECT_NE(masks(7, 2, 3, 4), usual);
  EXPECT_NE(masks(7, 1, 4, 4), usual);
  EXPECT_NE(masks(7, 1, 3, 5), usual);
  EXPECT_NE(masks(7, 1, 4, 3), usual);
  // Not on how many sequences a microbatch has.
  std::vector<float> both = masks(7, 1, 3, 4, 1);
  const std::vector<float> second = masks(7, 1, 3, 5, 1);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(both, usual);
  // The two sites agree by chance alone.
  EXPECT_EQ(std::set<float>(usual.begin(), usual.end()), (std::set<float>{0, 2, 6, 8}));
}

}  // namespace
}  // namespace pipesim::exec
