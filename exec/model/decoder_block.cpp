// A pre-norm decoder block, of a gpt:
//   h = x + dropout(attention(norm1(x) Wqkv + bqkv) Wo + bo)
//   y = h + dropout(gelu(norm2(h) W1 + b1) W2 + b2)
// and of a llama, whose norms are of root mean squares, without biases:
//   h = x + dropout(attention(rotate(norm1(x) Wqkv)) Wo)
//   y = h + dropout((silu(gate) up) W2), where (gate, up) = norm2(h) W1
// What is to be computed again, of norms, attention and activation, is not kept from F to I.
// Heads share keys and values where the model has fewer of those. Tensor-parallel ranks have some
// heads, and some of the MLP's inner numbers, each: sums over ranks come before `+ bo`, `+ b2`
// and, backwards, the norms.
#include <cmath>

#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class DecoderBlock final : public Layer {
 public:
  DecoderBlock(const LayerSetup& setup, int index) : Layer(setup, index) {
    const Model& model = setup.model;
    const bool has_biases = model.has_biases();
    const Start usual{.deviation = 0.02F};
    // What every block adds to the sum starts smaller the more blocks there are.
    const Start added{.deviation = 0.02F / std::sqrt(2.0F * static_cast<float>(model.blocks))};
    norm1_ = add_norm("norm1", has_biases);
    qkv_ = add_linear("qkv", hidden(), {hidden(), model.kv_size(), model.kv_size()}, usual,
                      has_biases || model.qkv_bias, SharedBy::outputs);
    out_ = add_linear("out", hidden(), {hidden()}, added, has_biases, SharedBy::inputs);
    norm2_ = add_norm("norm2", has_biases);
    const std::vector<std::int64_t> bands(model.is_gated() ? 2 : 1, model.mlp_size);
    up_ = add_linear("up", hidden(), bands, usual, has_biases, SharedBy::outputs);
    down_ = add_linear("down", model.mlp_size, {hidden()}, added, has_biases, SharedBy::inputs);
  }

  Tensor forward(const Microbatch& microbatch, Tensor x, Saved& saved) override {
    Tensor stats1;
    Tensor normed1 = normalise(x, norm1_, stats1);
    Tensor qkv = through(normed1, qkv_);
    if (qkv_.bias) device().add_bias(rows(), qkv_.outputs, weight(*qkv_.bias), qkv.data());
    if (rotates()) device().rotate(attention(), rotary_base(), false, qkv.data());
    Tensor state = take_floats(device().attention_state(attention()));
    Tensor mixed = take(rows() * out_.inputs);
    device().attention(attention(), qkv.data(), state.floats(), mixed.data());
    Tensor h = sum_through(mixed, out_);
    add_back(microbatch, 0, out_, x, h);

    Tensor stats2;
    Tensor normed2 = normalise(h, norm2_, stats2);
    Tensor up = through(normed2, up_);
    Tensor active = activated(up, up_.bias ? weight(*up_.bias) : ConstArray());
    Tensor y = sum_through(active, down_);
    add_back(microbatch, 1, down_, h, y);

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
    for (const std::size_t kept : computed_again()) saved[kept] = {};
    return y;
  }

  Tensor backward_input(const Microbatch& microbatch, Tensor dy, Saved& saved) override {
    Saved kept = std::move(saved);
    saved.clear();
    saved.resize(residue_count);
    compute_again(kept);

    // Through the MLP. Each gradient takes the place of what is no longer needed.
    Tensor ddown = left_of(dy, dropout(microbatch, 1));
    const Tensor& dy_down = ddown.empty() ? dy : ddown;
    Tensor dup;
    if (is_gated()) {
      const Tensor dactive = take(rows() * inner());
      multiply_backward(dy_down, down_, dactive);
      dup = std::move(kept[kept_up]);
      device().gated_silu_backward(rows(), inner(), dup.data(), dactive.data(), dup.data());
    } else {
      dup = take(rows() * inner());
      multiply_backward(dy_down, down_, dup);
      device().gelu_backward(dup.size(), kept[kept_up].data(), dup.data(), dup.data());
      kept[kept_up] = {};
    }
    Tensor dh =
        through_norm(dup, up_, kept[kept_h], norm2_, kept[kept_stats2], dy, saved[residue_norm2]);
    kept[kept_h] = {};
    saved[residue_down] = std::move(ddown.empty() ? dy : ddown);
    dy = {};

    // Through the attention.
    Tensor dout = left_of(dh, dropout(microbatch, 0));
    const Tensor& dh_out = dout.empty() ? dh : dout;
    Tensor dmixed = take(rows() * out_.inputs);
    multiply_backward(dh_out, out_, dmixed);
    Tensor dqkv = take(rows() * qkv_.outputs);
    device().attention_backward(attention(), kept[kept_qkv].data(), kept[kept_state].floats(),
                                kept[kept_mixed].data(), dmixed.data(), dqkv.data());
    if (rotates()) device().rotate(attention(), rotary_base(), true, dqkv.data());
    kept[kept_qkv] = {};
    kept[kept_state] = {};
    dmixed = {};
    Tensor dx =
        through_norm(dqkv, qkv_, kept[kept_x], norm1_, kept[kept_stats1], dh, saved[residue_norm1]);

    saved[residue_out] = std::move(dout.empty() ? dh : dout);
    saved[residue_normed1] = std::move(kept[kept_normed1]);
    saved[residue_qkv] = std::move(dqkv);
    saved[residue_mixed] = std::move(kept[kept_mixed]);
    saved[residue_normed2] = std::move(kept[kept_normed2]);
    saved[residue_up] = std::move(dup);
    saved[residue_active] = std::move(kept[kept_active]);
    for (Tensor& tensor : saved) tensor.serve_as(Use::residue);
    return dx;
  }

 private:
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

  std::vector<std::size_t> computed_again() const {
    const Recompute& again = setup_.recompute;
    std::vector<std::size_t> parts;
    if (again.norms) parts.insert(parts.end(), {kept_normed1, kept_normed2});
    if (again.attention) parts.push_back(kept_state);
    if (again.activation) parts.push_back(kept_active);
    return parts;
  }
  void compute_again(Saved& kept) const {
    for (const std::size_t part : computed_again()) {
      switch (part) {
        case kept_normed1: kept[part] = normalise(kept[kept_x], norm1_, kept[kept_stats1]); break;
        case kept_normed2: kept[part] = normalise(kept[kept_h], norm2_, kept[kept_stats2]); break;
        case kept_state:
          kept[part] = take_floats(device().attention_state(attention()));
          device().attention(attention(), kept[kept_qkv].data(), kept[part].floats(),
                             kept[kept_mixed].data());
          break;
        default: kept[part] = activated(kept[kept_up], {});  // which has its bias
      }
    }
  }

  // With sequence parallelism what is kept of the norms are parts, gathered again here.
  void add_weight_gradients(const Microbatch& /*microbatch*/, Saved& saved) override {
    const auto add = [&](std::size_t input, std::size_t gradient, const Linear& linear) {
      add_linear_gradients(saved[input], saved[gradient], linear);
      saved[input] = {};
      saved[gradient] = {};
    };
    const auto add_of_normed = [&](std::size_t normed, std::size_t gradient, const Linear& linear) {
      Tensor room;
      add_linear_gradients(gathered(saved[normed], room), saved[gradient], linear);
      saved[normed] = {};
      saved[gradient] = {};
    };
    add(residue_active, residue_down, down_);
    add_of_normed(residue_normed2, residue_up, up_);
    add(residue_mixed, residue_out, out_);
    add_of_normed(residue_normed1, residue_qkv, qkv_);
    add_norm_gradients(saved[residue_norm1], norm1_);
    add_norm_gradients(saved[residue_norm2], norm2_);
  }

  std::int64_t rows() const { return setup_.rows(); }
  std::int64_t hidden() const { return setup_.model.hidden_size; }
  std::int64_t inner() const { return down_.inputs; }
  bool is_gated() const { return setup_.model.is_gated(); }
  bool rotates() const { return !setup_.model.has_positions(); }
  float rotary_base() const { return static_cast<float>(setup_.model.rotary_base); }
  AttentionShape attention() const {
    const Model& model = setup_.model;
    return {setup_.batch,
            setup_.sequence,
            model.heads / setup_.tensor_ranks(),
            model.head_size(),
            model.heads / model.kv_heads,
            setup_.attention == Attention::fused};
  }

  // Of what a norm has made.
  Tensor through(const Tensor& normed, const Linear& linear) const {
    Tensor room;
    Tensor product = take(rows() * linear.outputs);
    multiply(gathered(normed, room), linear, product);
    return product;
  }
  // The end of a pair of products.
  Tensor sum_through(const Tensor& x, const Linear& linear) const {
    Tensor product = take(rows() * hidden());
    multiply(x, linear, product);
    return summed(std::move(product));
  }

  // `up` keeps the bias that is added.
  Tensor activated(const Tensor& up, ConstArray bias) const {
    Tensor active = take(rows() * inner());
    if (is_gated()) {
      device().gated_silu(rows(), inner(), up.data(), active.data());
    } else {
      device().bias_gelu(rows(), inner(), bias, up.data(), active.data());
    }
    return active;
  }

  // product = residual + dropout(product + the bias).
  void add_back(const Microbatch& microbatch, std::uint32_t site, const Linear& linear,
                const Tensor& residual, const Tensor& product) const {
    device().bias_dropout_add(own_rows(), hidden(),
                              linear.bias ? weight(*linear.bias) : ConstArray(), product.data(),
                              residual.data(), dropout(microbatch, site), product.data());
  }

  // The gradient that reaches what dropout let through, of all tokens; empty where that is dy.
  Tensor left_of(const Tensor& dy, const Dropout& dropout) const {
    Tensor kept;
    if (drops()) {
      kept = take(dy.size());
      device().dropout(dy.size(), dy.data(), dropout, kept.data());
    }
    Tensor room;
    gathered(kept.empty() ? dy : kept, room);
    return room.empty() ? std::move(kept) : std::move(room);
  }

  // residual + the gradient by x of norm(x) times a matrix, from that by the product.
  Tensor through_norm(const Tensor& dproduct, const Linear& linear, const Tensor& x,
                      const Norm& norm, const Tensor& stats, const Tensor& residual,
                      Tensor& gradients) const {
    Tensor dnormed = take(rows() * hidden());
    multiply_backward(dproduct, linear, dnormed);
    dnormed = summed(std::move(dnormed));
    return norm_backward(dnormed, x, norm, stats, residual.data(), gradients);
  }

  Norm norm1_;
  Linear qkv_;
  Linear out_;
  Norm norm2_;
  Linear up_;
  Linear down_;
};

}  // namespace

std::unique_ptr<Layer> make_decoder_block(const LayerSetup& setup, int index) {
  return std::make_unique<DecoderBlock>(setup, index);
}

}  // namespace pipesim::exec
