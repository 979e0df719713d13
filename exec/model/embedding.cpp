// y = dropout(table[token] + positions[index in the sequence]), without positions if blocks rotate
// by them. Tensor-parallel ranks have some words each.
#include <utility>

#include "exec/model/layers.h"

namespace pipesim::exec {
namespace {

class Embedding final : public Layer {
 public:
  Embedding(const LayerSetup& setup, int index) : Layer(setup, index) {
    const Model& model = setup.model;
    // A plain MLP has no norm to scale up small inputs.
    const bool is_mlp = model.architecture == Architecture::mlp;
    const Start start{.deviation = is_mlp && !model.tied_head ? 1.0F : 0.02F};
    add_words("table", start, {});
    if (!model.has_positions()) return;
    add_parameter("positions", model.max_sequence_length * model.hidden_size,
                  {.start = {.deviation = 0.02F}});
  }

  // For another rank's word this one has zeros.
  Tensor forward(const Microbatch& microbatch, Tensor /*x*/, Saved& /*saved*/) override {
    Tensor y = take(setup_.rows() * hidden());
    const bool adds_positions = setup_.model.has_positions() && setup_.tensor_rank() == 0;
    device().embed(setup_.rows(), hidden(), setup_.sequence, microbatch.tokens, weight(table),
                   adds_positions ? weight(positions) : ConstArray(), y.data());
    y = summed(std::move(y));
    if (drops()) device().dropout(y.size(), y.data(), dropout(microbatch, 0), y.data());
    return y;
  }

  Tensor backward_input(const Microbatch& microbatch, Tensor dy, Saved& saved) override {
    if (drops()) device().dropout(dy.size(), dy.data(), dropout(microbatch, 0), dy.data());
    dy.serve_as(Use::residue);
    saved.push_back(std::move(dy));
    return {};
  }

 private:
  enum : int { table, positions };

  void add_weight_gradients(const Microbatch& microbatch, Saved& saved) override {
    Tensor room;
    const Tensor& dy = gathered(saved.front(), room);
    device().embed_backward(setup_.rows(), hidden(), setup_.sequence, microbatch.tokens, dy.data(),
                            gradient(table),
                            setup_.model.has_positions() ? gradient(positions) : nullptr);
  }

  std::int64_t hidden() const { return setup_.model.hidden_size; }
};
static_assert(tied_parameter == 0, "the table comes first");

}  // namespace

std::unique_ptr<Layer> make_embedding(const LayerSetup& setup, int index) {
  return std::make_unique<Embedding>(setup, index);
}

}  // namespace pipesim::exec
