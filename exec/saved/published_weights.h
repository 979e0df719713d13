// Weights by the names and in the shapes that Hugging Face's transformers has for them.
//
// A gpt is its GPT-2, a llama its Llama, and one with biases of queries, keys and values its
// Qwen2. All compute the same: GELU by tanh (gelu_new), norms with an epsilon of 1e-5, and rotary
// positions that turn numbers i and i + n/2 of a head's n, so that no rows change places. GPT-2's
// matrices are [inputs x outputs] as ours; the others' are [outputs x inputs], and of their own
// for queries, keys, values, gates and what these let through, which are side by side in ours.
// Pure functions; any thread.
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
  // Of which array of ours it is (model_arrays.h): a matrix of so many rows and columns, of which
  // it has some columns, as they stand or turned.
  std::string key;
  std::int64_t rows = 1;
  std::int64_t width = 0;
  Range columns;
  bool is_turned = false;

  std::int64_t size() const { return rows * columns.size(); }
};

// One that can be trained and has no published form is an input error, which `where` begins.
void check_publishable(const Model& model, std::string_view where);

// In the order of the model. A matrix that the head shares stands once.
std::vector<PublishedTensor> published_tensors(const Model& model);

// Its numbers from our whole array, and back into it.
void take_published(const PublishedTensor& tensor, const float* array, float* numbers);
void put_published(const PublishedTensor& tensor, const float* numbers, float* array);

// The config.json that transformers reads beside the weights.
std::string published_config(const Model& model);

// Tensors that published files may have beside weights, and that say nothing.
bool is_published_buffer(std::string_view name);
// The name of the head's matrix, which a file may have once more where it is the embedding's.
inline constexpr std::string_view published_head = "lm_head.weight";
// What names begin with, and may lack where a file has no head.
std::string_view published_prefix(const Model& model);

}  // namespace pipesim::exec
