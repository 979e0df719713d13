// A pre-norm decoder block, of a gpt:
//   h = x + dropout(attention(norm1(x) Wqkv + bqkv) Wo + bo)
//   y = h + dropout(gelu(norm2(h) W1 + b1) W2 + b2)
// and of a llama, whose norms are of root mean squares, without biases:
//   h = x + dropout(attention(rotate(norm1(x) Wqkv)) Wo)
//   y = h + dropout((silu(gate) up) W2), where (gate, up) = norm2(h) W1
// Recomputed parts, of norms, attention and activation, are not kept from F to I. Heads share keys
// and values if the model has fewer of those. Tensor-parallel ranks have some heads, and some of
// the MLP's inner numbers, each: sums over ranks come before `+ bo`, `+ b2` and, backwards, the
// norms.
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
    // The initial contribution of each block to the residual is smaller the more blocks there are.
    const Start added{.deviation = 0.02F / std::sqrt(2.0F * static_cast<float>(model.blocks))};
    norm1_ = add_norm("norm1", has_biases);
    qkv_ = add_linear("qkv", hidden(), {model.attention_size(), model.kv_size(), model.kv_size()},
                      usual, has_biases || model.biases.qkv, SharedBy::outputs);
    out_ =
        add_linear("out", model.attention_size(), {hidden()}, added, has_biases, SharedBy::inputs);
    norm2_ = add_norm("norm2", has_biases);
    const std::vector<std::int64_t> bands(model.is_gated ? 2 : 1, model.mlp_size);
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
    Back back = start_back(saved);
    Tensor dnormed2 = summed(back_through_mlp(microbatch, dy, back, saved));
    Tensor dh = back_through_norm2(dnormed2, dy, back, saved);
    if (saved[residue_down].empty()) saved[residue_down] = std::move(dy);
    dy = {};
    dnormed2 = {};
    const Tensor dnormed1 = summed(back_through_attention(microbatch, dh, back, saved));
    Tensor dx = back_through_norm1(dnormed1, dh, back, saved);
    if (saved[residue_out].empty()) saved[residue_out] = std::move(dh);
    for (Tensor& tensor : saved) tensor.serve_as(Use::residue);
    return dx;
  }

  // Sums over tensor-parallel ranks overlap the gradients of weights that are possible then.
  Tensor backward(const Microbatch& microbatch, Tensor dy, Saved& saved,
                  const Piece& piece) override {
    if (setup_.tensor_ranks() == 1 || !setup_.tensor_overlap) {
      return Layer::backward(microbatch, std::move(dy), saved, piece);
    }
    Back back;
    Tensor dnormed, dh, dx;
    piece(Kind::I, [&] {
      back = start_back(saved);
      dnormed = back_through_mlp(microbatch, dy, back, saved);
      start_sum(dnormed);
    });
    piece(Kind::W, [&] {
      prepare_gradients();
      add_gradients_of_mlp(saved, or_else(saved[residue_down], dy));
    });
    piece(Kind::I, [&] {
      dnormed = finish_sum(std::move(dnormed));
      dh = back_through_norm2(dnormed, dy, back, saved);
      dy = {};
      dnormed = back_through_attention(microbatch, dh, back, saved);
      start_sum(dnormed);
    });
    piece(Kind::W, [&] { add_gradients_of_attention(saved, or_else(saved[residue_out], dh)); });
    piece(Kind::I, [&] {
      dnormed = finish_sum(std::move(dnormed));
      dx = back_through_norm1(dnormed, dh, back, saved);
    });
    piece(Kind::W, [&] {
      add_gradients_of_norms(saved);
      saved.clear();
    });
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
  // From I to W: each matrix's input, and the gradient of its output.
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
    if (again.norms) {
      parts.push_back(kept_normed1);
      parts.push_back(kept_normed2);
    }
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

  // The kept tensors that a backward takes over, and frees step by step. Each step leaves in
  // `saved` what its weights' gradients need. The result is the rank's part of a sum.
  using Back = Saved;
  Back start_back(Saved& saved) const {
    Back kept = std::move(saved);
    saved.clear();
    saved.resize(residue_count);
    compute_again(kept);
    return kept;
  }
  static const Tensor& or_else(const Tensor& one, const Tensor& other) {
    return one.empty() ? other : one;
  }

  // Each gradient overwrites a tensor that is no longer needed.
  Tensor back_through_mlp(const Microbatch& microbatch, const Tensor& dy, Back& kept,
                          Saved& saved) const {
    saved[residue_down] = left_of(dy, dropout(microbatch, 1));
    const Tensor& ddown = or_else(saved[residue_down], dy);
    Tensor dup;
    if (is_gated()) {
      const Tensor dactive = take(rows() * inner());
      multiply_backward(ddown, down_, dactive);
      dup = std::move(kept[kept_up]);
      device().gated_silu_backward(rows(), inner(), dup.data(), dactive.data(), dup.data());
    } else {
      dup = take(rows() * inner());
      multiply_backward(ddown, down_, dup);
      device().gelu_backward(dup.size(), kept[kept_up].data(), dup.data(), dup.data());
      kept[kept_up] = {};
    }
    Tensor dnormed = back_through(dup, up_);
    saved[residue_normed2] = std::move(kept[kept_normed2]);
    saved[residue_up] = std::move(dup);
    saved[residue_active] = std::move(kept[kept_active]);
    return dnormed;
  }

  Tensor back_through_norm2(const Tensor& dnormed, const Tensor& dy, Back& kept,
                            Saved& saved) const {
    Tensor dh = norm_backward(dnormed, kept[kept_h], norm2_, kept[kept_stats2], dy.data(),
                              saved[residue_norm2]);
    kept[kept_h] = {};
    return dh;
  }

  Tensor back_through_attention(const Microbatch& microbatch, const Tensor& dh, Back& kept,
                                Saved& saved) const {
    saved[residue_out] = left_of(dh, dropout(microbatch, 0));
    Tensor dmixed = take(rows() * out_.inputs);
    multiply_backward(or_else(saved[residue_out], dh), out_, dmixed);
    Tensor dqkv = take(rows() * qkv_.outputs);
    device().attention_backward(attention(), kept[kept_qkv].data(), kept[kept_state].floats(),
                                kept[kept_mixed].data(), dmixed.data(), dqkv.data());
    if (rotates()) device().rotate(attention(), rotary_base(), true, dqkv.data());
    kept[kept_qkv] = {};
    kept[kept_state] = {};
    dmixed = {};
    Tensor dnormed = back_through(dqkv, qkv_);
    saved[residue_normed1] = std::move(kept[kept_normed1]);
    saved[residue_qkv] = std::move(dqkv);
    saved[residue_mixed] = std::move(kept[kept_mixed]);
    return dnormed;
  }

  Tensor back_through_norm1(const Tensor& dnormed, const Tensor& dh, const Back& kept,
                            Saved& saved) const {
    return norm_backward(dnormed, kept[kept_x], norm1_, kept[kept_stats1], dh.data(),
                         saved[residue_norm1]);
  }

  void add_weight_gradients(const Microbatch& /*microbatch*/, Saved& saved) override {
    add_gradients_of_mlp(saved, saved[residue_down]);
    add_gradients_of_attention(saved, saved[residue_out]);
    add_gradients_of_norms(saved);
  }
  // The input is not needed after that.
  void add_gradients_of_mlp(Saved& saved, const Tensor& ddown) {
    add_gradients_of(down_, saved[residue_active], ddown);
    saved[residue_down] = {};
    add_gradients_of_normed(up_, saved[residue_normed2], saved[residue_up]);
    saved[residue_up] = {};
  }
  void add_gradients_of_attention(Saved& saved, const Tensor& dout) {
    add_gradients_of(out_, saved[residue_mixed], dout);
    saved[residue_out] = {};
    add_gradients_of_normed(qkv_, saved[residue_normed1], saved[residue_qkv]);
    saved[residue_qkv] = {};
  }
  void add_gradients_of_norms(const Saved& saved) {
    add_norm_gradients(saved[residue_norm1], norm1_);
    add_norm_gradients(saved[residue_norm2], norm2_);
  }
  void add_gradients_of(const Linear& linear, Tensor& input, const Tensor& gradient) {
    add_linear_gradients(input, gradient, linear);
    input = {};
    if (setup_.tensor != nullptr) setup_.tensor->poll();
  }
  // With sequence parallelism only a part of a norm's result is kept, and gathered again here.
  void add_gradients_of_normed(const Linear& linear, Tensor& normed, const Tensor& gradient) {
    Tensor room;
    add_linear_gradients(gathered(normed, room), gradient, linear);
    normed = {};
  }

  std::int64_t rows() const { return setup_.rows(); }
  std::int64_t hidden() const { return setup_.model.hidden_size; }
  std::int64_t inner() const { return down_.inputs; }
  bool is_gated() const { return setup_.model.is_gated; }
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

  // Multiplies a norm's result.
  Tensor through(const Tensor& normed, const Linear& linear) const {
    Tensor room;
    Tensor product = take(rows() * linear.outputs);
    multiply(gathered(normed, room), linear, product);
    return product;
  }
  // The end of a pair of GEMMs.
  Tensor sum_through(const Tensor& x, const Linear& linear) const {
    Tensor product = take(rows() * hidden());
    multiply(x, linear, product);
    return summed(std::move(product));
  }

  // Adds the bias to `up` in place.
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

  // The gradient through dropout, for all tokens; empty if that is dy.
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

  // The rank's part of the gradient with respect to a norm's result.
  Tensor back_through(const Tensor& dproduct, const Linear& linear) const {
    Tensor dnormed = take(rows() * hidden());
    multiply_backward(dproduct, linear, dnormed);
    return dnormed;
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
