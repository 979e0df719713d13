// A pre-norm decoder block, as in GPT-2:
//   h = x + dropout(attention(norm1(x)) Wo + bo)
//   y = h + dropout(gelu(norm2(h) W1 + b1) W2 + b2)
#include <cmath>

#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class DecoderBlock final : public Layer {
 public:
  DecoderBlock(const LayerSetup& setup, int index) : Layer(setup, index) {
    const Start usual{.deviation = 0.02F};
    // What every block adds to the sum starts smaller the more blocks there are.
    const Start added{.deviation =
                          0.02F / std::sqrt(2.0F * static_cast<float>(setup.model.blocks))};
    add_parameter("norm1 gamma", hidden(), {.value = 1}, false);
    add_parameter("norm1 beta", hidden(), {}, false);
    add_parameter("qkv matrix", hidden() * 3 * hidden(), usual, true);
    add_parameter("qkv bias", 3 * hidden(), {}, false);
    add_parameter("out matrix", hidden() * hidden(), added, true);
    add_parameter("out bias", hidden(), {}, false);
    add_parameter("norm2 gamma", hidden(), {.value = 1}, false);
    add_parameter("norm2 beta", hidden(), {}, false);
    add_parameter("up matrix", hidden() * inner(), usual, true);
    add_parameter("up bias", inner(), {}, false);
    add_parameter("down matrix", inner() * hidden(), added, true);
    add_parameter("down bias", hidden(), {}, false);
  }

  Tensor forward(const Microbatch& microbatch, Tensor x, Saved& saved) override {
    Tensor stats1 = take_floats(2 * rows());
    Tensor normed1 = norm(x, norm1_gamma, stats1);
    Tensor qkv = take(rows() * 3 * hidden());
    multiply(normed1, qkv_matrix, hidden(), 3 * hidden(), qkv);
    device().add_bias(rows(), 3 * hidden(), weight(qkv_bias), qkv.data());
    Tensor state = take_floats(device().attention_state(attention()));
    Tensor mixed = take(x.size());
    device().attention(attention(), qkv.data(), state.floats(), mixed.data());
    Tensor h = take(x.size());
    multiply(mixed, out_matrix, hidden(), hidden(), h);
    device().bias_dropout_add(rows(), hidden(), weight(out_bias), h.data(), x.data(),
                              dropout(microbatch, 0), h.data());

    Tensor stats2 = take_floats(2 * rows());
    Tensor normed2 = norm(h, norm2_gamma, stats2);
    Tensor up = take(rows() * inner());
    multiply(normed2, up_matrix, hidden(), inner(), up);
    Tensor active = take(rows() * inner());
    device().bias_gelu(rows(), inner(), weight(up_bias), up.data(), active.data());
    Tensor y = take(x.size());
    multiply(active, down_matrix, inner(), hidden(), y);
    device().bias_dropout_add(rows(), hidden(), weight(down_bias), y.data(), h.data(),
                              dropout(microbatch, 1), y.data());

    saved.resize(kept_count);
    saved[kept_x] = std::move(x);
    saved[kept_stats1] = std::move(stats1);
    saved[kept_normed1] = std::move(normed1);
    saved[kept_qkv] = std::move(qkv);
    saved[kept_state] = std::move(state);
    saved[kept_mixed] = std::move(mixed);
    saved[kept_h] = std::move(h);
    saved[kept_stats2] = std::move(stats2);
    saved[kept_normed2] = std::move(normed2);
    saved[kept_up] = std::move(up);
    saved[kept_active] = std::move(active);
    return y;
  }

  Tensor backward_input(const Microbatch& microbatch, Tensor dy, Saved& saved) override {
    Saved kept = std::move(saved);
    saved.clear();
    saved.resize(residue_count);

    // Through the MLP. Each gradient takes the place of what is no longer needed.
    Tensor ddown = dropped(dy, dropout(microbatch, 1));
    const Tensor& dy_down = ddown.empty() ? dy : ddown;
    Tensor dup = take(rows() * inner());
    multiply_backward(dy_down, down_matrix, inner(), hidden(), dup);
    device().gelu_backward(dup.size(), kept[kept_up].data(), dup.data(), dup.data());
    kept[kept_up] = {};
    Tensor norm2_gradients = take_floats(2 * hidden());
    Tensor dh = norm_backward(dup, up_matrix, inner(), kept[kept_h], norm2_gamma, kept[kept_stats2],
                              dy, norm2_gradients);
    kept[kept_h] = {};
    saved[residue_down] = std::move(ddown.empty() ? dy : ddown);
    dy = {};

    // Through the attention.
    Tensor dout = dropped(dh, dropout(microbatch, 0));
    const Tensor& dh_out = dout.empty() ? dh : dout;
    Tensor dmixed = take(dh.size());
    multiply_backward(dh_out, out_matrix, hidden(), hidden(), dmixed);
    Tensor dqkv = take(rows() * 3 * hidden());
    device().attention_backward(attention(), kept[kept_qkv].data(), kept[kept_state].floats(),
                                kept[kept_mixed].data(), dmixed.data(), dqkv.data());
    kept[kept_qkv] = {};
    kept[kept_state] = {};
    dmixed = {};
    Tensor norm1_gradients = take_floats(2 * hidden());
    Tensor dx = norm_backward(dqkv, qkv_matrix, 3 * hidden(), kept[kept_x], norm1_gamma,
                              kept[kept_stats1], dh, norm1_gradients);

    saved[residue_out] = std::move(dout.empty() ? dh : dout);
    saved[residue_normed1] = std::move(kept[kept_normed1]);
    saved[residue_qkv] = std::move(dqkv);
    saved[residue_mixed] = std::move(kept[kept_mixed]);
    saved[residue_normed2] = std::move(kept[kept_normed2]);
    saved[residue_up] = std::move(dup);
    saved[residue_active] = std::move(kept[kept_active]);
    saved[residue_norm1] = std::move(norm1_gradients);
    saved[residue_norm2] = std::move(norm2_gradients);
    for (Tensor& tensor : saved) tensor.serve_as(Use::residue);
    return dx;
  }

 private:
  enum : int {
    norm1_gamma,
    norm1_beta,
    qkv_matrix,
    qkv_bias,
    out_matrix,
    out_bias,
    norm2_gamma,
    norm2_beta,
    up_matrix,
    up_bias,
    down_matrix,
    down_bias,
  };
  // From F to I.
  enum : std::size_t {
    kept_x,
    kept_stats1,
    kept_normed1,
    kept_qkv,
    kept_state,
    kept_mixed,
    kept_h,
    kept_stats2,
    kept_normed2,
    kept_up,
    kept_active,
    kept_count,
  };
  // From I to W: of each matrix what went in, and the gradient of what came out.
  enum : std::size_t {
    residue_normed1,
    residue_qkv,
    residue_mixed,
    residue_out,
    residue_normed2,
    residue_up,
    residue_active,
    residue_down,
    residue_norm1,
    residue_norm2,
    residue_count,
  };

  void add_weight_gradients(const Microbatch& /*microbatch*/, Saved& saved) override {
    add_linear_gradients(saved[residue_active], saved[residue_down], down_matrix, inner(),
                         hidden());
    add_linear_gradients(saved[residue_normed2], saved[residue_up], up_matrix, hidden(), inner());
    add_linear_gradients(saved[residue_mixed], saved[residue_out], out_matrix, hidden(), hidden());
    add_linear_gradients(saved[residue_normed1], saved[residue_qkv], qkv_matrix, hidden(),
                         3 * hidden());
    add_norm_gradients(saved[residue_norm1], norm1_gamma);
    add_norm_gradients(saved[residue_norm2], norm2_gamma);
  }

  std::int64_t rows() const { return setup_.rows(); }
  std::int64_t hidden() const { return setup_.model.hidden_size; }
  std::int64_t inner() const { return setup_.model.mlp_size; }
  AttentionShape attention() const {
    const std::int64_t heads = setup_.model.heads;
    return {setup_.batch, setup_.sequence, heads, hidden() / heads};
  }

  Tensor norm(const Tensor& x, int gamma, const Tensor& stats) const {
    Tensor y = take(x.size());
    device().layer_norm(rows(), hidden(), x.data(), weight(gamma), weight(gamma + 1), y.data(),
                        stats.floats(), stats.floats() + rows());
    return y;
  }

  // The gradient that reaches what dropout let through; empty where it let
  // everything through.
  Tensor dropped(const Tensor& dy, const Dropout& dropout) const {
    if (!drops()) return {};
    Tensor kept = take(dy.size());
    device().dropout(dy.size(), dy.data(), dropout, kept.data());
    return kept;
  }

  // residual + the gradient by x of norm(x) times a matrix, from that by the product.
  Tensor norm_backward(const Tensor& dproduct, int matrix, std::int64_t outputs, const Tensor& x,
                       int gamma, const Tensor& stats, const Tensor& residual,
                       const Tensor& norm_gradients) const {
    const Tensor dnormed = take(x.size());
    multiply_backward(dproduct, matrix, hidden(), outputs, dnormed);
    Tensor dx = take(x.size());
    device().layer_norm_backward(rows(), hidden(), dnormed.data(), x.data(), weight(gamma),
                                 stats.floats(), stats.floats() + rows(), residual.data(),
                                 dx.data(), norm_gradients.floats(),
                                 norm_gradients.floats() + hidden());
    return dx;
  }
};

}  // namespace

std::unique_ptr<Layer> make_decoder_block(const LayerSetup& setup, int index) {
  return std::make_unique<DecoderBlock>(setup, index);
}

}  // namespace pipesim::exec
