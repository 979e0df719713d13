// The last layer: layer norm (in a gpt), then the logits of the next token,
// then the cross-entropy with the token that came.
#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class Head final : public Layer {
 public:
  Head(const LayerSetup& setup, int index)
      : Layer(setup, index), has_norm_(setup.model.architecture == Architecture::gpt) {
    // [classes x hidden], like the embedding's table, whose values it starts
    // with where the two are tied.
    add_parameter("matrix", classes() * hidden(), {.deviation = 0.02F}, true,
                  setup.model.tied_head ? 0 : index);
    if (!has_norm_) return;
    add_parameter("norm gamma", hidden(), {.value = 1}, false);
    add_parameter("norm beta", hidden(), {.value = 0}, false);
  }

  Tensor forward(const Microbatch& microbatch, Tensor x, Saved& saved) override {
    Tensor normed;
    Tensor stats;
    if (has_norm_) {
      normed = take(x.size());
      stats = take_floats(2 * rows());
      device().layer_norm(rows(), hidden(), x.data(), weight(gamma), weight(beta), normed.data(),
                          stats.floats(), stats.floats() + rows());
    }
    Tensor softmax = take(rows() * classes());
    const Tensor& input = has_norm_ ? normed : x;
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
    if (has_norm_) {
      const Tensor dnormed = std::move(dx);
      dx = take(x.size());
      norm_gradients = take_floats(2 * hidden());
      device().layer_norm_backward(rows(), hidden(), dnormed.data(), x.data(), weight(gamma),
                                   stats.floats(), stats.floats() + rows(), {}, dx.data(),
                                   norm_gradients.floats(), norm_gradients.floats() + hidden());
    }
    saved.push_back(std::move(has_norm_ ? normed : x));
    saved.push_back(std::move(logits));
    saved.push_back(std::move(norm_gradients));
    for (Tensor& tensor : saved) tensor.serve_as(Use::residue);
    return dx;
  }

 private:
  enum : int { matrix, gamma, beta };
  enum : std::size_t { kept_x, kept_normed, kept_stats, kept_softmax };
  enum : std::size_t { residue_input, residue_logits, residue_norm };

  void add_weight_gradients(const Microbatch& /*microbatch*/, Saved& saved) override {
    device().matrix_product(Transpose::a, classes(), hidden(), rows(), saved[residue_logits].data(),
                            saved[residue_input].data(), gradient(matrix), true);
    if (has_norm_) add_norm_gradients(saved[residue_norm], gamma);
  }

  std::int64_t rows() const { return setup_.rows(); }
  std::int64_t hidden() const { return setup_.model.hidden_size; }
  std::int64_t classes() const { return setup_.model.vocabulary_size; }

  bool has_norm_;
};

}  // namespace

std::unique_ptr<Layer> make_head(const LayerSetup& setup, int index) {
  return std::make_unique<Head>(setup, index);
}

}  // namespace pipesim::exec
