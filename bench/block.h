// A decoder block on a device, for benchmarks: F, I and W of a microbatch.
//
// It owns its weights. The device must outlive it, and it must outlive what take() returns. One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "exec/model/layer.h"

namespace pipesim::exec {

struct BlockShape {
  std::int64_t hidden = 512;
  std::int64_t heads = 8;
  std::int64_t batch = 4;
  std::int64_t sequence = 256;
  Number precision = Number::float32;
  Architecture architecture = Architecture::gpt;

  bool is_llama() const { return architecture == Architecture::llama; }
  std::int64_t rows() const { return batch * sequence; }
  // A llama's heads share keys and values by fours; its MLP has about as many weights as a gpt's.
  std::int64_t kv_heads() const { return is_llama() ? heads / 4 : heads; }
  std::int64_t mlp() const { return is_llama() ? hidden * 11 / 4 : 4 * hidden; }
};

class Block {
 public:
  Block(Device& device, const BlockShape& shape) : shape_(shape), pool_(device) {
    Model model;
    model.architecture = shape.architecture;
    model.blocks = 1;
    model.hidden_size = shape.hidden;
    model.heads = shape.heads;
    model.kv_heads = shape.kv_heads();
    model.mlp_size = shape.mlp();
    model.max_sequence_length = shape.sequence;
    layer_ = make_layer({device, pool_, model, shape.batch, shape.sequence, 1, shape.precision}, 1);
    store_ = std::make_unique<ParameterStore>(device, pool_, shape.precision,
                                              std::vector<Layer*>{layer_.get()});
  }

  // Room for an input or a gradient, of undefined content.
  Tensor take() {
    return pool_.take(shape_.rows() * shape_.hidden, Use::activations, shape_.precision);
  }

  // Calls lap() after each of F, I and W.
  template <typename Lap>
  void run(Tensor x, Tensor dy, const Lap& lap) {
    Saved saved;
    const Tensor y = layer_->forward({}, std::move(x), saved);
    lap();
    const Tensor dx = layer_->backward_input({}, std::move(dy), saved);
    lap();
    layer_->backward_weight({}, saved);
    lap();
  }

 private:
  BlockShape shape_;
  Pool pool_;
  std::unique_ptr<Layer> layer_;
  std::unique_ptr<ParameterStore> store_;
};

}  // namespace pipesim::exec
