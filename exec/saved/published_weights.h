// Weights with the names and shapes of Hugging Face's transformers.
// A gpt is its GPT-2, a llama its Llama, and one with biases of queries, keys and values its Qwen2.
// All compute the same: GELU by tanh (gelu_new), norms with an epsilon of 1e-5, and rotary
// positions that rotate numbers i and i + n/2 of a head's n, so that no rows are permuted. GPT-2's
// matrices are [inputs x outputs] like ours; the others' are [outputs x inputs], and separate for
// queries, keys, values, gates and gated inputs, which are concatenated in ours. Pure functions;
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/model/range.h"
#include "sim/cost/model.h"

namespace pipesim::exec {

struct PublishedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  // Our array that it is part of (model_arrays.h): a matrix of `rows` x `width`, of which it
  // has `columns`, possibly transposed.
  std::string key;
  std::int64_t rows = 1;
  std::int64_t width = 0;
  Range columns;
  bool is_turned = false;

  std::int64_t size() const { return rows * columns.size(); }
};

// Throws an input error, which begins with `where`, if the trainable model has no published form.
void check_publishable(const Model& model, std::string_view where);

// In the order of the model. A matrix that the head shares occurs once.
std::vector<PublishedTensor> published_tensors(const Model& model);

// Copies its numbers from our whole array, and back into it.
void take_published(const PublishedTensor& tensor, const float* array, float* numbers);
void put_published(const PublishedTensor& tensor, const float* numbers, float* array);

// The config.json that transformers reads with the weights.
std::string published_config(const Model& model);

// Tensors that published files may have besides weights, without information.
bool is_published_buffer(std::string_view name);
// The name of the head's matrix, which a file may repeat if it is the embedding's.
inline constexpr std::string_view published_head = "lm_head.weight";
// The prefix of names, which may be missing if a file has no head.
std::string_view published_prefix(const Model& model);

}  // namespace pipesim::exec
