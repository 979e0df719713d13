// The last layer: a norm (not in a plain MLP), then the logits of the next token,
// then the cross-entropy with the actual token. Tensor-parallel ranks have some classes each.
#include <optional>
#include <utility>

#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class Head final : public Layer {
 public:
  Head(const LayerSetup& setup, int index) : Layer(setup, index) {
    // [classes x hidden], like the embedding's table, whose initial values it has if the two are
    // tied.
    add_words("matrix", {.deviation = 0.02F},
              setup.model.tied_head ? std::optional(0) : std::nullopt);
    if (setup.model.architecture != Architecture::mlp) {
      norm_ = add_norm("norm", setup.model.has_biases());
    }
  }

  Tensor forward(const Microbatch& microbatch, Tensor x, Saved& saved) override {
    Tensor normed;
    Tensor stats;
    if (norm_) normed = normalise(x, *norm_, stats);
    Tensor softmax = take(rows() * classes());
    {
      Tensor room;
      const Tensor& input = gathered(norm_ ? normed : x, room);
      device().matrix_product(Transpose::b, rows(), classes(), hidden(), input.data(),
                              weight(matrix), softmax.data(), false);
    }
    find_losses(microbatch, softmax);
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
    Tensor dx = take(rows() * hidden());
    device().matrix_product(Transpose::none, rows(), hidden(), classes(), logits.data(),
                            weight(matrix), dx.data(), false);
    dx = summed(std::move(dx));
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
    Tensor room;
    const Tensor& input = gathered(saved[residue_input], room);
    device().matrix_product(Transpose::a, classes(), hidden(), rows(), saved[residue_logits].data(),
                            input.data(), gradient(matrix), true);
    if (norm_) add_norm_gradients(saved[residue_norm], *norm_);
  }

  // If ranks split the classes, each computes its own terms of a row's loss.
  void find_losses(const Microbatch& microbatch, const Tensor& logits) const {
    const int ranks = setup_.tensor_ranks();
    if (ranks == 1) {
      device().cross_entropy(rows(), classes(), microbatch.targets, logits.data(),
                             microbatch.losses);
      return;
    }
    const std::int64_t part = cross_entropy_part * rows();
    const Tensor parts = take_floats(ranks * part);
    device().cross_entropy_of_part(rows(), classes(), microbatch.targets, logits.data(),
                                   parts.floats() + setup_.tensor_rank() * part);
    setup_.tensor->all_gather(parts.all());
    device().join_cross_entropy(rows(), classes(), ranks, parts.floats(), logits.data(),
                                microbatch.losses);
  }

  std::int64_t rows() const { return setup_.rows(); }
  std::int64_t hidden() const { return setup_.model.hidden_size; }
  std::int64_t classes() const { return setup_.own_words().size(); }

  std::optional<Norm> norm_;
};

}  // namespace

std::unique_ptr<Layer> make_head(const LayerSetup& setup, int index) {
  return std::make_unique<Head>(setup, index);
}

}  // namespace pipesim::exec
