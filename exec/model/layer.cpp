#include "exec/model/layer.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "exec/model/layers.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

std::vector<std::int32_t> own_places(const LayerSetup& setup, std::vector<std::int32_t> tokens) {
  const Range words = setup.own_words();
  for (std::int32_t& token : tokens) {
    const bool is_own = words.begin <= token && token < words.end;
    token = is_own ? static_cast<std::int32_t>(token - words.begin) : -1;
  }
  return tokens;
}

void Layer::prepare_gradients() {
  if (!is_fresh_) return;
  for (const Parameter& parameter : parameters_) {
    device().fill(parameter.gradient.size(), parameter.gradient.data(), 0);
  }
  is_fresh_ = false;
}

void Layer::backward_weight(const Microbatch& microbatch, Saved& saved) {
  prepare_gradients();
  add_weight_gradients(microbatch, saved);
  saved.clear();
}

Tensor Layer::backward(const Microbatch& microbatch, Tensor dy, Saved& saved, const Piece& piece) {
  Tensor dx;
  piece(Kind::I, [&] { dx = backward_input(microbatch, std::move(dy), saved); });
  piece(Kind::W, [&] { backward_weight(microbatch, saved); });
  return dx;
}

int Layer::add_parameter(const std::string& name, std::int64_t size, Given given) {
  const int like_layer = given.like_layer.value_or(index_);
  Parameter parameter;
  parameter.name = setup_.model.layer_name(index_) + " " + name;
  parameter.whole_size = size;
  parameter.size = given.shard ? given.shard->size() : size;
  parameter.start = given.start;
  parameter.key = {.seed = setup_.seed, .purpose = Purpose::initial_weights};
  parameter.key.layer = static_cast<std::uint32_t>(like_layer);
  parameter.key.site = static_cast<std::uint32_t>(like_layer == index_ ? parameters_.size() : 0);
  parameter.decays = given.decays;
  parameter.is_copy = setup_.tensor_ranks() > 1 && !given.shard;
  parameter.shard = std::move(given.shard);
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

Linear Layer::add_linear(const std::string& name, std::int64_t inputs,
                         const std::vector<std::int64_t>& bands, Start start, bool has_bias,
                         SharedBy shared_by) {
  const std::string prefix = name.empty() ? "" : name + " ";
  const int ranks = setup_.tensor_ranks();
  const std::int64_t outputs = std::accumulate(bands.begin(), bands.end(), std::int64_t{0});
  Shard matrix{outputs, {0, inputs}, {{0, outputs}}};
  if (shared_by == SharedBy::outputs) {
    matrix.columns.clear();
    std::int64_t begin = 0;
    for (const std::int64_t band : bands) {
      matrix.columns.push_back(part_of({begin, begin + band}, setup_.tensor_rank(), ranks));
      begin += band;
    }
  } else {
    matrix.rows = part_of(matrix.rows, setup_.tensor_rank(), ranks);
  }
  Linear linear{.inputs = matrix.rows.size(), .outputs = matrix.row_size()};
  Given of_matrix{.start = start, .decays = true};
  Given of_bias;
  if (ranks > 1) of_matrix.shard = matrix;
  if (ranks > 1 && shared_by == SharedBy::outputs) {
    of_bias.shard = Shard{outputs, {0, 1}, matrix.columns};
  }
  linear.matrix = add_parameter(prefix + "matrix", inputs * outputs, std::move(of_matrix));
  if (has_bias) linear.bias = add_parameter(prefix + "bias", outputs, std::move(of_bias));
  return linear;
}

// With sequence parallelism its gradients are sums over the rank's own tokens.
Norm Layer::add_norm(const std::string& name, bool has_beta) {
  const std::int64_t hidden = setup_.model.hidden_size;
  Norm norm{.gamma = add_parameter(name + " gamma", hidden, {.start = {.value = 1}})};
  if (has_beta) norm.beta = add_parameter(name + " beta", hidden, {});
  for (std::size_t i = static_cast<std::size_t>(norm.gamma); i < parameters_.size(); ++i) {
    parameters_[i].is_partial = setup_.sequence_parallel;
  }
  return norm;
}

int Layer::add_words(const std::string& name, Start start, std::optional<int> like_layer) {
  const Model& model = setup_.model;
  Given given{.start = start, .decays = true, .like_layer = like_layer};
  if (setup_.tensor_ranks() > 1) {
    given.shard = Shard{model.hidden_size, setup_.own_words(), {{0, model.hidden_size}}};
  }
  return add_parameter(name, model.vocabulary_size * model.hidden_size, std::move(given));
}

Dropout Layer::dropout(const Microbatch& microbatch, std::uint32_t site) const {
  Dropout dropout;
  dropout.key = {.seed = setup_.seed,
                 .purpose = Purpose::dropout,
                 .site = site,
                 .layer = static_cast<std::uint32_t>(index_),
                 .step = microbatch.step,
                 .first = (microbatch.first_sequence * setup_.sequence + setup_.own_rows().begin) *
                          setup_.model.hidden_size};
  dropout.probability = static_cast<float>(setup_.model.dropout_ppm) / 1e6F;
  return dropout;
}

void Layer::multiply(const Tensor& x, const Linear& linear, const Tensor& y) const {
  device().matrix_product(Transpose::none, setup_.rows(), linear.outputs, linear.inputs, x.data(),
                          weight(linear.matrix), y.data(), false);
}

void Layer::multiply_backward(const Tensor& dy, const Linear& linear, const Tensor& dx) const {
  device().matrix_product(Transpose::b, setup_.rows(), linear.inputs, linear.outputs, dy.data(),
                          weight(linear.matrix), dx.data(), false);
}

void Layer::add_linear_gradients(const Tensor& x, const Tensor& dy, const Linear& linear) const {
  device().matrix_product(Transpose::a, linear.inputs, linear.outputs, setup_.rows(), x.data(),
                          dy.data(), gradient(linear.matrix), true);
  if (!linear.bias) return;
  device().add_column_sums(setup_.rows(), linear.outputs, dy.data(), gradient(*linear.bias));
}

const Tensor& Layer::gathered(const Tensor& x, Tensor& room) const {
  if (!setup_.sequence_parallel) return x;
  const std::int64_t hidden = setup_.model.hidden_size;
  room = take(setup_.rows() * hidden);
  device().copy(x.size(), x.data(),
                room.all().part(setup_.own_rows().begin * hidden, x.size()).data());
  setup_.tensor->all_gather(room.all());
  return room;
}

void Layer::start_sum(const Tensor& x) const {
  if (setup_.tensor_ranks() == 1) return;
  using Keeps = TensorGroup::Keeps;
  setup_.tensor->start_sum(x.all(), setup_.sequence_parallel ? Keeps::own_part : Keeps::all);
}

Tensor Layer::finish_sum(Tensor x) const {
  if (setup_.tensor_ranks() == 1) return x;
  setup_.tensor->finish_sum();
  if (!setup_.sequence_parallel) return x;
  const std::int64_t hidden = setup_.model.hidden_size;
  Tensor own = take(own_rows() * hidden);
  device().copy(own.size(), x.all().part(setup_.own_rows().begin * hidden, own.size()).data(),
                own.data());
  return own;
}

// A layer norm's statistics are the rows' means and then their rstd.
Tensor Layer::normalise(const Tensor& x, const Norm& norm, Tensor& stats) const {
  const std::int64_t rows = own_rows();
  const std::int64_t hidden = setup_.model.hidden_size;
  Tensor y = take(x.size());
  stats = take_floats(norm.beta ? 2 * rows : rows);
  if (norm.beta) {
    device().layer_norm(rows, hidden, x.data(), weight(norm.gamma), weight(*norm.beta), y.data(),
                        stats.floats(), stats.floats() + rows);
  } else {
    device().rms_norm(rows, hidden, x.data(), weight(norm.gamma), y.data(), stats.floats());
  }
  return y;
}

Tensor Layer::norm_backward(const Tensor& dy, const Tensor& x, const Norm& norm,
                            const Tensor& stats, ConstArray residual, Tensor& gradients) const {
  const std::int64_t rows = own_rows();
  const std::int64_t hidden = setup_.model.hidden_size;
  Tensor dx = take(x.size());
  gradients = take_floats(norm.beta ? 2 * hidden : hidden);
  if (norm.beta) {
    device().layer_norm_backward(rows, hidden, dy.data(), x.data(), weight(norm.gamma),
                                 stats.floats(), stats.floats() + rows, residual, dx.data(),
                                 gradients.floats(), gradients.floats() + hidden);
  } else {
    device().rms_norm_backward(rows, hidden, dy.data(), x.data(), weight(norm.gamma),
                               stats.floats(), residual, dx.data(), gradients.floats());
  }
  return dx;
}

void Layer::add_norm_gradients(const Tensor& gradients, const Norm& norm) const {
  const std::int64_t size = setup_.model.hidden_size;
  const auto add = [&](int parameter, const float* from) {
    float* sum = gradient(parameter);
    device().add(size, sum, from, sum);
  };
  add(norm.gamma, gradients.floats());
  if (norm.beta) add(*norm.beta, gradients.floats() + size);
}

double kept_numbers(const Model& model, double batch, double sequence, int layer,
                    Attention attention, const Recompute& recompute, int tensor_ranks) {
  const double rows = batch * sequence;
  const auto hidden = static_cast<double>(model.hidden_size);
  const bool is_mlp = model.architecture == Architecture::mlp;
  if (model.is_embedding(layer)) return rows * hidden;
  if (model.is_head(layer)) {
    return rows *
           ((is_mlp ? 1 : 2) * hidden + static_cast<double>(model.vocabulary_size) / tensor_ranks);
  }
  if (is_mlp) return rows * 2 * hidden;
  const double ranks = tensor_ranks;
  const auto heads = static_cast<double>(model.attention_size()) / ranks;
  const double qkv = heads + 2 * static_cast<double>(model.kv_size()) / ranks;
  const double inner = static_cast<double>(model.mlp_size) / ranks;
  const double scores =
      static_cast<double>(model.heads) / ranks * (attention == Attention::fused ? 2 : sequence);
  // Inputs of norms, of the attention and its result, and of the activation.
  double kept = 2 * hidden + qkv + heads + (model.is_gated ? 2 : 1) * inner;
  if (!recompute.attention) kept += scores;
  if (!recompute.norms) kept += 2 * hidden;
  if (!recompute.activation) kept += inner;
  return rows * kept;
}

namespace {

// What its architecture says, but for biases of queries, keys and values.
bool is_plain(const Model& model) {
  Model plain = model;
  plain.shape_as(model.architecture);
  plain.extra_positions = 0;
  if (model.architecture == Architecture::llama) plain.biases.qkv = model.biases.qkv;
  return plain == model;
}

}  // namespace

void check_trainable(const Model& model, std::string_view where) {
  if (model.architecture == Architecture::llama && model.head_size() % 2 != 0) {
    throw input_error(
        fmt::format("{}: pipeexec can't train {}: its heads have {} numbers, and rotary positions "
                    "turn pairs; give it heads of an even size",
                    where, quote(model.name), model.head_size()));
  }
  const char* reason = nullptr;
  const char* usual = "a gpt or llama without experts";
  if (model.is_listed()) {
    reason = "listed layers are numbers with nothing to compute";
  } else if (model.has_experts()) {
    reason = "it lacks experts";
  } else if (model.latent) {
    reason = "it lacks latent attention";
    usual = "a gpt or llama whose heads have keys of their own";
  } else if (model.architecture == Architecture::gpt && model.positions == Positions::rotary) {
    reason = "it lacks rotary positions in a gpt";
    usual = "a gpt with a table of positions, or a llama";
  } else if (model.qk_norm != QkNorm::none) {
    reason = "it lacks norms of queries and keys";
    usual = "a llama without qk_norm";
  } else if (model.kinds != std::vector{BlockKind{}}) {
    reason = "its attention looks back over all tokens";
    usual = "a gpt or llama without a window";
  } else if (model.prediction_depths > 0) {
    reason = "it predicts one token at a time";
    usual = "a gpt or llama without prediction_depths";
  } else if (!is_plain(model)) {
    reason = "its blocks are a gpt's or a llama's";
    usual = "a gpt or llama without norms, biases, positions or an MLP of another kind";
  }
  if (reason == nullptr) return;
  throw input_error(
      fmt::format("{}: pipeexec can't train {}: {}; give {}, or an mlp, or have pipesim predict "
                  "this one",
                  where, quote(model.name), reason, usual));
}

std::unique_ptr<Layer> make_layer(const LayerSetup& setup, int index) {
  if (setup.model.is_embedding(index)) return make_embedding(setup, index);
  if (setup.model.is_head(index)) return make_head(setup, index);
  if (setup.model.architecture == Architecture::mlp) return make_linear_block(setup, index);
  return make_decoder_block(setup, index);
}

std::vector<Layer*> plain(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::vector<Layer*> pointers;
  for (const auto& layer : layers) pointers.push_back(layer.get());
  return pointers;
}

}  // namespace pipesim::exec
