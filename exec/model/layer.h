// A layer of a model on a device: forward, input gradient and weight gradient
// as separate operations.
//
// A layer names its parameters; a ParameterStore (parameters.h) has their numbers. An operation
// passes tensors to the next one of the same microbatch in a Saved, owned by the caller: forward()
// fills it, backward_input() keeps in it what backward_weight() needs and counts it as residue,
// backward_weight() empties it. Matrices are [rows x columns] with rows = sequences x positions of
// one microbatch; with sequence parallelism only the rank's own rows pass from layer to layer. One
// rank, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/model/parameters.h"
#include "exec/model/tensor.h"
#include "exec/model/tensor_group.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/model.h"
#include "traces/action.h"

namespace pipesim::exec {

// Whether each of so many tensor-parallel ranks sends other stages its part of the tokens instead
// of all of them: if tokens divide evenly, as they always do with sequence parallelism.
constexpr bool sends_parts(std::int64_t rows, int tensor_ranks) { return rows % tensor_ranks == 0; }

// Common to all layers of a rank.
struct LayerSetup {
  Device& device;
  Pool& pool;
  Model model;
  std::int64_t batch = 1;     // sequences in a microbatch
  std::int64_t sequence = 1;  // positions in each
  std::uint64_t seed = 0;
  Number precision = Number::float32;        // of weights as operators read them, and activations
  Attention attention = Attention::unfused;  // fused: keeps no scores, as GPUs never do
  TensorGroup* tensor = nullptr;             // of the ranks that split layers; null if none do
  bool sequence_parallel = false;            // they split tokens between pairs of GEMMs, too
  bool tensor_overlap = true;                // in a B, their sums overlap gradients of weights
  Recompute recompute = {};                  // layers do parts, the stage recomputes whole blocks

  int tensor_ranks() const { return tensor == nullptr ? 1 : tensor->ranks(); }
  int tensor_rank() const { return tensor == nullptr ? 0 : tensor->rank(); }
  std::int64_t rows() const { return batch * sequence; }
  // The rank's own between pairs of GEMMs.
  Range own_rows() const {
    const Range all{0, rows()};
    return sequence_parallel ? part_of(all, tensor_rank(), tensor_ranks()) : all;
  }
  // Those that it sends to other stages, or receives from them.
  Range message_rows() const {
    return sends_parts(rows(), tensor_ranks()) ? part_of({0, rows()}, tensor_rank(), tensor_ranks())
                                               : Range{0, rows()};
  }
  // Its part of the vocabulary.
  Range own_words() const {
    return part_of({0, model.vocabulary_size}, tensor_rank(), tensor_ranks());
  }
};

// Tokens as indices among the rank's own words, or -1 if they are another rank's.
std::vector<std::int32_t> own_places(const LayerSetup& setup, std::vector<std::int32_t> tokens);

// One microbatch of one step. The arrays are on the device; null if no layer of the stage needs
// them.
struct Microbatch {
  std::uint32_t step = 0;
  std::uint32_t index = 0;
  // [rows]: read by the embedding, and the expected next ones, read by the head; both as indices
  // among the rank's own words, -1 if they are another rank's.
  const std::int32_t* tokens = nullptr;
  const std::int32_t* targets = nullptr;
  float* losses = nullptr;  // [rows]: written by the head
  // The number of its first sequence within the step; a key of dropout.
  std::int64_t first_sequence = 0;
};

using Saved = std::vector<Tensor>;

// How tensor-parallel ranks split a GEMM: each has some of its outputs, or some of its inputs, and
// then a part of every sum.
enum class SharedBy : std::uint8_t { outputs, inputs };

// The parameters of a GEMM: a matrix [inputs x outputs], and the bias after it, if any; the rank's
// own part of both.
struct Linear {
  int matrix = 0;
  std::optional<int> bias = {};
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};
// Those of a norm: a layer norm if it has a beta, else an RMS norm.
struct Norm {
  int gamma = 0;
  std::optional<int> beta = {};
};

// The parameter of the embedding, and of the head, that a tied model shares.
inline constexpr int tied_parameter = 0;

class Layer {
 public:
  virtual ~Layer() = default;

  // The output; `x` is empty for the embedding, the output for the head.
  virtual Tensor forward(const Microbatch& microbatch, Tensor x, Saved& saved) = 0;
  // The gradient with respect to x from that with respect to the output; empty likewise.
  virtual Tensor backward_input(const Microbatch& microbatch, Tensor dy, Saved& saved) = 0;
  void backward_weight(const Microbatch& microbatch, Saved& saved);
  // Both at once: alternating pieces of I and of W, each run by `piece`.
  using Piece = std::function<void(Kind kind, const std::function<void()>& work)>;
  virtual Tensor backward(const Microbatch& microbatch, Tensor dy, Saved& saved,
                          const Piece& piece);

  // The next backward_weight() starts the sums of gradients from zero.
  void start_sums() { is_fresh_ = true; }
  // It adds to the existing gradients.
  void continue_sums() { is_fresh_ = false; }

  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  int index() const { return index_; }
  // Whether its tied_parameter is a matrix that another layer has, too.
  bool shares_matrix() const {
    const Model& model = setup_.model;
    return model.tied_head && (model.is_embedding(index_) || model.is_head(index_));
  }

 protected:
  Layer(const LayerSetup& setup, int index) : setup_(setup), index_(index) {}

  virtual void add_weight_gradients(const Microbatch& microbatch, Saved& saved) = 0;
  // Call before the first of them: zeroes the sums of gradients after start_sums().
  void prepare_gradients();

  // Append a parameter, or those of a GEMM or a norm. Sizes are those of the whole; of a shard, if
  // given, the rank holds only those numbers. `like_layer`: draws the same numbers as the parameter
  // of the same index in that layer.
  struct Given {
    Start start = {};
    bool decays = false;
    std::optional<int> like_layer = {};
    std::optional<Shard> shard = {};
  };
  int add_parameter(const std::string& name, std::int64_t size, Given given);
  // Outputs are in bands, each of which the ranks split.
  Linear add_linear(const std::string& name, std::int64_t inputs,
                    const std::vector<std::int64_t>& bands, Start start, bool has_bias,
                    SharedBy shared_by);
  Norm add_norm(const std::string& name, bool has_beta);
  // A matrix [words x hidden]; the rank has the rows of its own words.
  int add_words(const std::string& name, Start start, std::optional<int> like_layer);

  Device& device() const { return setup_.device; }
  // In the model's precision, and in float32.
  Tensor take(std::int64_t size) const {
    return setup_.pool.take(size, Use::activations, setup_.precision);
  }
  Tensor take_floats(std::int64_t size) const { return setup_.pool.take(size, Use::activations); }
  ConstArray weight(int parameter) const {
    const Slice& rounded = at(parameter).rounded;
    return (rounded.empty() ? at(parameter).weight : rounded).data();
  }
  float* gradient(int parameter) const { return at(parameter).gradient.floats(); }
  Dropout dropout(const Microbatch& microbatch, std::uint32_t site) const;
  bool drops() const { return setup_.model.dropout_ppm > 0; }
  // y[rows x outputs] = x[rows x inputs] W, and the gradient through it; the bias is the caller's.
  void multiply(const Tensor& x, const Linear& linear, const Tensor& y) const;
  void multiply_backward(const Tensor& dy, const Linear& linear, const Tensor& dx) const;
  // Adds x^T dy to the gradient of W, and dy's rows to that of the bias.
  void add_linear_gradients(const Tensor& x, const Tensor& dy, const Linear& linear) const;

  std::int64_t own_rows() const { return setup_.own_rows().size(); }
  // x[own rows x hidden] gathered from the tensor-parallel ranks into `room`; x itself if each has
  // all of it.
  const Tensor& gathered(const Tensor& x, Tensor& room) const;
  // The sum of x[rows x hidden] over these ranks; each keeps its own rows. Between its start and
  // its end it overlaps compute.
  Tensor summed(Tensor x) const {
    start_sum(x);
    return finish_sum(std::move(x));
  }
  void start_sum(const Tensor& x) const;
  Tensor finish_sum(Tensor x) const;

  // Of x[own rows x hidden]; both leave numbers for later: the statistics of each row for the
  // backward, and the gradients of the norm's parameters, one after the other.
  Tensor normalise(const Tensor& x, const Norm& norm, Tensor& stats) const;
  Tensor norm_backward(const Tensor& dy, const Tensor& x, const Norm& norm, const Tensor& stats,
                       ConstArray residual, Tensor& gradients) const;
  void add_norm_gradients(const Tensor& gradients, const Norm& norm) const;

  LayerSetup setup_;

 private:
  const Parameter& at(int parameter) const {
    return parameters_[static_cast<std::size_t>(parameter)];
  }

  int index_;
  bool is_fresh_ = true;
  std::vector<Parameter> parameters_;
};

// Refuses a model that make_layer() has no layers for; `where` names the flag in the error.
void check_trainable(const Model& model, std::string_view where);

// The layer with that index in the model; its parameters have no numbers yet.
std::unique_ptr<Layer> make_layer(const LayerSetup& setup, int index);
std::vector<Layer*> plain(const std::vector<std::unique_ptr<Layer>>& layers);

// How many numbers forward() of that layer leaves in its Saved if these parts are recomputed and so
// many ranks split the layer, up to a few per row or parameter; backward_input() leaves no more
// than with none of them. In floating point, so that absurd sizes can be reported, too.
double kept_numbers(const Model& model, double batch, double sequence, int layer,
                    Attention attention, const Recompute& recompute = {}, int tensor_ranks = 1);

}  // namespace pipesim::exec
