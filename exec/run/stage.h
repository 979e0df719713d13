// A virtual stage: some layers of the model, and their saved tensors for each microbatch between F,
// I and W. Knows no schedule: it runs the actions it is given, and refuses those out of order for a
// microbatch. With full recomputation it keeps only each block's input from F on, and runs the
// block forward again before its part of I or B. One rank, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/model/layer.h"
#include "exec/run/recorder.h"
#include "exec/run/shared_states.h"

namespace pipesim::exec {

class Stage final : public SharedStates {
 public:
  struct Setup {
    LayerSetup layers;
    int stage = 0;
    int first_layer = 0;
    int layer_count = 1;
    int microbatches = 1;
    StateSplit split = {};
    Cuts cuts = {};
    bool gathers_layers = false;  // two at a time, if weights are split
  };
  // `between_layers` is called after each layer's part of an action.
  Stage(const Setup& setup, Recorder& recorder, std::function<void()> between_layers);

  Tensor forward(const Microbatch& microbatch, Tensor x);
  Tensor backward_input(const Microbatch& microbatch, Tensor dy);
  void backward_weight(const Microbatch& microbatch);
  // Both, layer by layer.
  Tensor backward(const Microbatch& microbatch, Tensor dy);

  // Throws unless all microbatches have passed.
  void check_passed() const;
  // The same, and then sums of gradients start from zero, kept ones included.
  void start_step();
  // The next gradients start new sums.
  void start_sums() override;
  // Called after each layer's weight gradients: this microbatch's are complete for the stage's
  // numbers from `begin` on.
  using HasGradients = std::function<void(std::int64_t begin)>;
  void when_gradients(HasGradients call) { has_gradients_ = std::move(call); }

  // Called before a layer uses its weights in a forward or, going `back`, a backward, and before it
  // makes gradients.
  struct Before {
    std::function<void(std::size_t layer, bool back)> weights;
    std::function<void(std::size_t layer)> gradients;
  };
  void before_layers(Before calls) { before_ = std::move(calls); }

  int index() const override { return setup_.stage; }
  bool has_embedding() const { return setup_.first_layer == 0; }
  bool has_head() const {
    return setup_.layers.model.is_head(setup_.first_layer + setup_.layer_count - 1);
  }
  std::vector<std::unique_ptr<Layer>>& layers() { return layers_; }
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  ParameterStore& store() { return *store_; }
  const ParameterStore& store() const { return *store_; }

  const Parts& parts() const override { return store_->parts(); }
  const StateSplit& split() const override { return store_->split(); }
  Slice gradients(std::size_t segment) const override { return store_->gradients(segment); }
  Slice operands(std::size_t segment) const override { return store_->operands(segment); }
  void keep_gradients(std::size_t segment) override { store_->keep_gradients(segment); }
  bool is_whole() const override { return store_->is_whole(); }
  std::optional<std::size_t> gradient_place(std::size_t segment) const override;
  void make_all_gradients() override { store_->make_all_gradients(); }
  void make_whole() override;
  void release_whole() override { store_->release_whole(); }

 private:
  enum class State : std::uint8_t { empty, forwarded, input_done };
  struct Slot {
    State state = State::empty;
    std::vector<Tensor> inputs;  // by layer; of recomputed ones
    std::vector<Saved> saved;    // by layer
  };

  // Converts a message from another stage for that layer, and a result for one.
  Tensor entering(const Action& action, const Layer& layer, Tensor message);
  Tensor leaving(Tensor result);
  Slot& slot_in(State expected, Kind kind, const Microbatch& microbatch);
  bool computes_again(std::size_t layer) const;
  // Makes sure that the layer's weights are there, and its saved tensors, recomputed if necessary.
  void prepare_backward(const Microbatch& microbatch, const Action& action, std::size_t layer,
                        Slot& slot);
  void add_weight_gradients(const Microbatch& microbatch, const Action& action, std::size_t layer,
                            Saved& saved);
  template <typename Work>
  auto timed(const Action& action, const Layer& layer, Kind kind, bool again, Work work);

  Setup setup_;
  Recorder& recorder_;
  std::function<void()> between_layers_;
  HasGradients has_gradients_;
  Before before_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<ParameterStore> store_;
  std::vector<Slot> slots_;  // by microbatch
};

}  // namespace pipesim::exec
