// The block of a plain MLP: y = gelu(x W + b).
#include <cmath>

#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class LinearBlock final : public Layer {
 public:
  LinearBlock(const LayerSetup& setup, int index) : Layer(setup, index) {
    // Preserves the scale of activations (He et al., 2015, "Delving deep into rectifiers").
    const float deviation = std::sqrt(2.0F / static_cast<float>(hidden()));
    linear_ =
        add_linear("", hidden(), {hidden()}, {.deviation = deviation}, true, SharedBy::outputs);
  }

  Tensor forward(const Microbatch& /*microbatch*/, Tensor x, Saved& saved) override {
    Tensor inner = take(x.size());
    Tensor y = take(x.size());
    multiply(x, linear_, inner);
    device().bias_gelu(setup_.rows(), hidden(), weight(*linear_.bias), inner.data(), y.data());
    saved.push_back(std::move(x));
    saved.push_back(std::move(inner));
    return y;
  }

  Tensor backward_input(const Microbatch& /*microbatch*/, Tensor dy, Saved& saved) override {
    const Tensor inner = std::move(saved[1]);
    device().gelu_backward(dy.size(), inner.data(), dy.data(), dy.data());
    Tensor dx = take(dy.size());
    multiply_backward(dy, linear_, dx);
    saved[1] = std::move(dy);
    for (Tensor& tensor : saved) tensor.serve_as(Use::residue);
    return dx;
  }

 private:
  void add_weight_gradients(const Microbatch& /*microbatch*/, Saved& saved) override {
    add_linear_gradients(saved[0], saved[1], linear_);
  }

  std::int64_t hidden() const { return setup_.model.hidden_size; }

  Linear linear_;
};

}  // namespace

std::unique_ptr<Layer> make_linear_block(const LayerSetup& setup, int index) {
  return std::make_unique<LinearBlock>(setup, index);
}

}  // namespace pipesim::exec
