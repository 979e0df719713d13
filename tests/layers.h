// What tests of layers share: small models of odd sizes, weights that make
// every part of a model count, and microbatches, on the device and for the
// oracle.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/model/layer.h"
#include "tests/devices.h"
#include "tests/model_oracle.h"

namespace pipesim::testing {

// A seed that needs both words of the generator's key.
inline constexpr std::uint64_t example_seed = 0x123456789abcdefULL;

struct Example {
  Model model;
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  Attention attention = Attention::unfused;

  std::int64_t rows() const { return batch * sequence; }
};

inline Example gpt_example(bool tied, std::int64_t dropout_ppm) {
  Example example;
  example.model = {.name = tied ? "gpt, tied" : "gpt, untied",
                   .blocks = 2,
                   .hidden_size = 12,
                   .heads = 3,
                   .kv_heads = 3,
                   .mlp_size = 19,
                   .vocabulary_size = 17,
                   .max_sequence_length = 9,
                   .tied_head = tied,
                   .dropout_ppm = dropout_ppm};
  example.batch = 3;
  example.sequence = 7;
  if (dropout_ppm > 0) example.model.name += ", dropout";
  return example;
}

// Small enough to look at every element.
inline Example tiny_example(bool tied) {
  Example example;
  example.model = {.name = "tiny",
                   .blocks = 1,
                   .hidden_size = 6,
                   .heads = 2,
                   .kv_heads = 2,
                   .mlp_size = 5,
                   .vocabulary_size = 6,
                   .max_sequence_length = 3,
                   .tied_head = tied,
                   .dropout_ppm = 200'000};
  example.batch = 2;
  example.sequence = 3;
  return example;
}

inline Example mlp_example(bool tied, std::int64_t dropout_ppm) {
  Example example = gpt_example(tied, dropout_ppm);
  example.model.name.replace(0, 3, "mlp");
  example.model.shape_as(Architecture::mlp);
  example.model.blocks = 3;
  example.model.heads = 1;
  example.model.kv_heads = 1;
  example.model.mlp_size = example.model.hidden_size;
  return example;
}

// Four heads; fewer of keys and values are shared.
inline Example llama_example(bool tied, std::int64_t dropout_ppm, std::int64_t kv_heads,
                             bool qkv_bias) {
  Example example = gpt_example(tied, dropout_ppm);
  example.model.name.replace(0, 3, "llama");
  example.model.name += ", " + std::to_string(kv_heads) + " of keys";
  if (qkv_bias) example.model.name += ", biases";
  example.model.shape_as(Architecture::llama);
  example.model.hidden_size = 16;
  example.model.heads = 4;
  example.model.kv_heads = kv_heads;
  example.model.rotary_base = 50;  // all angles matter in a short sequence
  example.model.biases.qkv = qkv_bias;
  return example;
}

// Heads that have more numbers together than what passes between layers.
inline Example with_wide_heads(Example example) {
  example.model.name += ", wide heads";
  example.model.own_head_size = 6;
  return example;
}

// With attention that keeps no scores.
inline Example fused(Example example) {
  example.model.name += ", fused";
  example.attention = Attention::fused;
  return example;
}

inline std::vector<Example> every_example() {
  return {gpt_example(true, 0),
          gpt_example(true, 150'000),
          gpt_example(false, 0),
          gpt_example(false, 400'000),
          mlp_example(false, 0),
          mlp_example(true, 250'000),
          tiny_example(true),
          tiny_example(false),
          llama_example(true, 0, 4, false),
          llama_example(false, 0, 2, true),
          llama_example(true, 200'000, 2, false),
          llama_example(false, 150'000, 1, true),
          fused(gpt_example(true, 150'000)),
          fused(llama_example(false, 0, 2, true)),
          with_wide_heads(llama_example(false, 150'000, 2, true))};
}

inline std::vector<float> read(exec::Device& device, const exec::Slice& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  device.download(values.data(), tensor.memory(), tensor.bytes());
  return values;
}

inline std::vector<float> read(exec::Device& device, const exec::Tensor& tensor) {
  return read(device, tensor.all());
}
inline void write(exec::Device& device, const std::vector<float>& values,
                  const exec::Slice& tensor) {
  ASSERT_EQ(static_cast<std::int64_t>(values.size()), tensor.size());
  device.upload(tensor.memory(), values.data(), tensor.bytes());
}

// Weights as large as trained ones: with the initial ones attention is nearly
// even, biases are 0, and much that is wrong would not show. The same in every
// partition; a tied head gets the table.
inline void strengthen(exec::Device& device, exec::Layer& layer, const Model& model) {
  for (std::size_t i = 0; i < layer.parameters().size(); ++i) {
    const exec::Parameter& parameter = layer.parameters()[i];
    const bool shared = model.tied_head && model.is_head(layer.index()) && i == 0;
    const auto seed =
        static_cast<unsigned>(shared ? 0 : layer.index() * 100) + static_cast<unsigned>(i);
    std::vector<float> values = normals(parameter.weight.size(), seed, 0.5F);
    if (parameter.name.ends_with("gamma")) {
      for (float& value : values) value += 1;
    }
    write(device, values, parameter.weight);
  }
}

// Tokens and targets of one microbatch, and where its losses go.
class Tokens {
 public:
  Tokens(exec::Device& device, const Example& example, std::uint32_t step, std::uint32_t index)
      : tokens_(device, example.rows()),
        targets_(device, example.rows()),
        losses_(device, example.rows()) {
    const auto below = static_cast<std::int32_t>(example.model.vocabulary_size);
    batch_ = {example.sequence,
              choices(example.rows(), below, step * 100 + index),
              choices(example.rows(), below, step * 100 + index + 50),
              example_seed,
              step,
              index * example.batch};
    index_ = index;
    device.upload(tokens_.data(), batch_.tokens.data(), example.rows() * 4);
    device.upload(targets_.data(), batch_.targets.data(), example.rows() * 4);
  }

  exec::Microbatch microbatch() {
    return {batch_.step,
            index_,
            reinterpret_cast<std::int32_t*>(tokens_.data()),
            reinterpret_cast<std::int32_t*>(targets_.data()),
            losses_.data(),
            batch_.first_sequence};
  }
  const OracleBatch& oracle() const { return batch_; }
  std::vector<float> losses() { return losses_.values(); }

 private:
  Floats tokens_;
  Floats targets_;
  Floats losses_;
  OracleBatch batch_;
  std::uint32_t index_ = 0;
};

// The elements of a tensor to look at: all of a small one, else some.
inline std::vector<std::size_t> some_of(std::size_t count, unsigned seed) {
  if (count <= 128) return every_index(count);
  std::vector<std::size_t> some;
  for (const auto i : choices(24, static_cast<std::int32_t>(count), seed)) {
    some.push_back(static_cast<std::size_t>(i));
  }
  return some;
}

// |got - want| <= relative x the largest |want| of the tensor + absolute.
inline void expect_near_as_a_whole(const Doubles& got, const Doubles& want, double relative,
                                   double absolute, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= relative * largest + absolute)
        << what << "[" << i << "]: " << got[i] << " instead of " << want[i] << ", the largest is "
        << largest;
  }
}

}  // namespace pipesim::testing
