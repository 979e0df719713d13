// The last layer: a norm (not in a plain MLP), then the logits of the next token,
// then the cross-entropy with the token that came.
#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class Head final : public Layer {
 public:
  Head(const LayerSetup& setup, int index) : Layer(setup, index) {
    // [classes x hidden], like the embedding's table, whose values it starts
    // with where the two are tied.
    add_parameter("matrix", classes() * hidden(), {.deviation = 0.02F}, true,
                  setup.model.tied_head ? 0 : index);
    if (setup.model.architecture != Architecture::mlp) {
      norm_ = add_norm("norm", setup.model.has_biases());
    }
  }

  Tensor forward(const Microbatch& microbatch, Tensor x, Saved& saved) override {
    Tensor normed;
    Tensor stats;
    if (norm_) normed = normalise(x, *norm_, stats);
    Tensor softmax = take(rows() * classes());
    const Tensor& input = norm_ ? normed : x;
    device().matrix_product(Transpose::b, rows(), classes(), hidden(), input.data(), weight(matrix),
                            softmax.data(), false);
    device().cross_entropy(rows(), classes(), microbatch.targets, softmax.data(),
                           microbatch.losses);
    saved.resize(4);
    saved[kept_x] = std::move(x);
    saved[kept_normed] = std::move(normed);
    saved[kept_stats] = std::move(stats);
    saved[kept_softmax] = std::move(softmax);
    return {};
  }

  Tensor backward_input(const Microbatch& microbatch, Tensor /*dy*/, Saved& saved) override {
    Tensor x = std::move(saved[kept_x]);
    Tensor normed = std::move(saved[kept_normed]);
    const Tensor stats = std::move(saved[kept_stats]);
    Tensor logits = std::move(saved[kept_softmax]);
    saved.clear();

    device().cross_entropy_backward(rows(), classes(), microbatch.targets, logits.data());
    Tensor dx = take(x.size());
    device().matrix_product(Transpose::none, rows(), hidden(), classes(), logits.data(),
                            weight(matrix), dx.data(), false);
    Tensor norm_gradients;
    if (norm_) {
      const Tensor dnormed = std::move(dx);
      dx = norm_backward(dnormed, x, *norm_, stats, {}, norm_gradients);
    }
    saved.push_back(std::move(norm_ ? normed : x));
    saved.push_back(std::move(logits));
    saved.push_back(std::move(norm_gradients));
    for (Tensor& tensor : saved) tensor.serve_as(Use::residue);
    return dx;
  }

 private:
  enum : int { matrix };
  enum : std::size_t { kept_x, kept_normed, kept_stats, kept_softmax };
  enum : std::size_t { residue_input, residue_logits, residue_norm };

  void add_weight_gradients(const Microbatch& /*microbatch*/, Saved& saved) override {
    device().matrix_product(Transpose::a, classes(), hidden(), rows(), saved[residue_logits].data(),
                            saved[residue_input].data(), gradient(matrix), true);
    if (norm_) add_norm_gradients(saved[residue_norm], *norm_);
  }

  std::int64_t rows() const { return setup_.rows(); }
  std::int64_t hidden() const { return setup_.model.hidden_size; }
  std::int64_t classes() const { return setup_.model.vocabulary_size; }

  std::optional<Norm> norm_;
};

}  // namespace

std::unique_ptr<Layer> make_head(const LayerSetup& setup, int index) {
  return std::make_unique<Head>(setup, index);
}

}  // namespace pipesim::exec
