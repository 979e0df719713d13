#include "exec/run/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "traces/base/error.h"

namespace pipesim::exec {

Stage::Stage(const Setup& setup, Recorder& recorder, std::function<void()> between_layers)
    : setup_(setup),
      recorder_(recorder),
      between_layers_(std::move(between_layers)),
      slots_(static_cast<std::size_t>(setup.microbatches)) {
  for (int i = 0; i < setup.layer_count; ++i) {
    layers_.push_back(make_layer(setup.layers, setup.first_layer + i));
  }
  store_ = std::make_unique<ParameterStore>(setup.layers.device, setup.layers.pool,
                                            setup.layers.precision, plain(layers_), setup.split,
                                            setup.cuts);
}

// The microbatch's slot, which must be in that state for an action of that kind.
Stage::Slot& Stage::slot_in(State expected, Kind kind, const Microbatch& microbatch) {
  Slot& slot = slots_[microbatch.index];
  if (slot.state != expected) {
    throw work_error(
        fmt::format("{}: its microbatch is not where this action needs it",
                    to_text(make_action(setup_.stage, kind, static_cast<int>(microbatch.index)))));
  }
  return slot;
}

template <typename Work>
auto Stage::timed(const Action& action, const Layer& layer, Kind kind, bool again, Work work) {
  LayerNote layer_note{action, layer.index(), kind, again, {}, {}, 0};
  recorder_.enter(action, layer.index());
  const ProcessorWatch watch = recorder_.watch_layer();
  if (recorder_.in_detail()) layer_note.start = recorder_.mark();
  const auto note = [&] {
    if (recorder_.in_detail()) {
      layer_note.end = recorder_.mark();
      layer_note.preempted_ns = watch.preempted_ns();
      recorder_.add(layer_note);
    }
    between_layers_();
  };
  if constexpr (std::is_void_v<decltype(work())>) {
    work();
    note();
  } else {
    auto result = work();
    note();
    return result;
  }
}

bool Stage::computes_again(std::size_t layer) const {
  const int index = layers_[layer]->index();
  const Model& model = setup_.layers.model;
  const Recompute& recompute = setup_.layers.recompute;
  if (!recompute.full || model.is_embedding(index) || model.is_head(index)) return false;
  const int before = index - std::max(1, layers_.front()->index());  // blocks of this stage
  return recompute.blocks == 0 || before < recompute.blocks;
}

Tensor Stage::forward(const Microbatch& microbatch, Tensor x) {
  Slot& slot = slot_in(State::empty, Kind::F, microbatch);
  slot.state = State::forwarded;
  const Action action =
      make_action(setup_.stage, Kind::F, static_cast<std::int32_t>(microbatch.index));
  x = entering(action, *layers_.front(), std::move(x));
  slot.saved.resize(layers_.size());
  slot.inputs.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (before_.weights) before_.weights(i, false);
    // A layer consumes its input: a copy is kept.
    if (computes_again(i)) {
      slot.inputs[i] = setup_.layers.pool.take(x.size(), Use::activations, setup_.layers.precision);
      setup_.layers.device.copy(x.size(), x.data(), slot.inputs[i].data());
    }
    x = timed(action, *layers_[i], Kind::F, false,
              [&] { return layers_[i]->forward(microbatch, std::move(x), slot.saved[i]); });
    if (computes_again(i)) slot.saved[i].clear();
  }
  return leaving(std::move(x));
}

// Ranks with the same activations between pairs of GEMMs each send a part of them to the next
// stage, which gathers them there.
Tensor Stage::entering(const Action& action, const Layer& layer, Tensor message) {
  const LayerSetup& layers = setup_.layers;
  const Range own = layers.message_rows();
  if (message.empty() || own.size() == layers.own_rows().size()) return message;
  recorder_.enter(action, layer.index());
  const std::int64_t hidden = layers.model.hidden_size;
  Tensor whole = layers.pool.take(layers.rows() * hidden, Use::activations, layers.precision);
  layers.device.copy(message.size(), message.data(),
                     whole.all().part(own.begin * hidden, message.size()).data());
  layers.tensor->all_gather(whole.all());
  return whole;
}

Tensor Stage::leaving(Tensor result) {
  const LayerSetup& layers = setup_.layers;
  const Range own = layers.message_rows();
  if (result.empty() || own.size() == layers.own_rows().size()) return result;
  const std::int64_t hidden = layers.model.hidden_size;
  Tensor part = layers.pool.take(own.size() * hidden, Use::activations, layers.precision);
  layers.device.copy(part.size(), result.all().part(own.begin * hidden, part.size()).data(),
                     part.data());
  return part;
}

void Stage::prepare_backward(const Microbatch& microbatch, const Action& action, std::size_t layer,
                             Slot& slot) {
  if (before_.weights) before_.weights(layer, true);
  if (!computes_again(layer)) return;
  Layer& own = *layers_[layer];
  timed(action, own, Kind::F, true,
        [&] { own.forward(microbatch, std::move(slot.inputs[layer]), slot.saved[layer]); });
}

Tensor Stage::backward_input(const Microbatch& microbatch, Tensor dy) {
  Slot& slot = slot_in(State::forwarded, Kind::I, microbatch);
  slot.state = State::input_done;
  const Action action =
      make_action(setup_.stage, Kind::I, static_cast<std::int32_t>(microbatch.index));
  dy = entering(action, *layers_.back(), std::move(dy));
  for (std::size_t i = layers_.size(); i-- > 0;) {
    prepare_backward(microbatch, action, i, slot);
    dy = timed(action, *layers_[i], Kind::I, false, [&] {
      return layers_[i]->backward_input(microbatch, std::move(dy), slot.saved[i]);
    });
  }
  return leaving(std::move(dy));
}

void Stage::add_weight_gradients(const Microbatch& microbatch, const Action& action,
                                 std::size_t layer, Saved& saved) {
  if (before_.gradients) before_.gradients(layer);
  timed(action, *layers_[layer], Kind::W, false,
        [&] { layers_[layer]->backward_weight(microbatch, saved); });
  if (has_gradients_) has_gradients_(store_->begin_of(layer));
}

void Stage::backward_weight(const Microbatch& microbatch) {
  Slot& slot = slot_in(State::input_done, Kind::W, microbatch);
  slot.state = State::empty;
  const Action action =
      make_action(setup_.stage, Kind::W, static_cast<std::int32_t>(microbatch.index));
  for (std::size_t i = layers_.size(); i-- > 0;) {
    add_weight_gradients(microbatch, action, i, slot.saved[i]);
  }
}

Tensor Stage::backward(const Microbatch& microbatch, Tensor dy) {
  Slot& slot = slot_in(State::forwarded, Kind::B, microbatch);
  slot.state = State::empty;
  const Action action =
      make_action(setup_.stage, Kind::B, static_cast<std::int32_t>(microbatch.index));
  dy = entering(action, *layers_.back(), std::move(dy));
  for (std::size_t i = layers_.size(); i-- > 0;) {
    prepare_backward(microbatch, action, i, slot);
    if (before_.gradients) before_.gradients(i);
    dy = layers_[i]->backward(microbatch, std::move(dy), slot.saved[i],
                              [&](Kind kind, const std::function<void()>& work) {
                                timed(action, *layers_[i], kind, false, work);
                              });
    if (has_gradients_) has_gradients_(store_->begin_of(i));
  }
  return leaving(std::move(dy));
}

void Stage::check_passed() const {
  for (const Slot& slot : slots_) {
    if (slot.state != State::empty) {
      throw work_error(fmt::format("stage {}: microbatch {} did not pass all its actions",
                                   setup_.stage, &slot - slots_.data()));
    }
  }
}

void Stage::start_step() {
  check_passed();
  start_sums();
  store_->start_step();
}

void Stage::start_sums() {
  for (const auto& layer : layers_) layer->start_sums();
  store_->release_all_gradients();
}

std::optional<std::size_t> Stage::gradient_place(std::size_t segment) const {
  if (!split().splits(2) || store_->has_all_gradients()) return {};
  return store_->layer_of(segment) % 2;
}

void Stage::make_whole() {
  if (setup_.gathers_layers) {
    store_->take_room_for_two();
  } else {
    store_->make_whole();
  }
}

}  // namespace pipesim::exec
