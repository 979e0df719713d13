#include "exec/model/parameters.h"

#include <algorithm>
#include <utility>

#include "exec/model/layer.h"

namespace pipesim::exec {
namespace {

// A cache line of float32, so that no two ranks' parts share one.
constexpr std::int64_t granule = 16;

std::vector<std::int64_t> begins_of(const std::vector<Layer*>& layers) {
  std::vector<std::int64_t> begins{0};
  for (const Layer* layer : layers) {
    std::int64_t size = 0;
    for (const Parameter& parameter : layer->parameters()) size += parameter.size;
    begins.push_back(begins.back() + size);
  }
  return begins;
}

// Visits (layer, its parameter, the parameter's index in the layer, its numbers among all).
template <typename Visit>
void for_each_parameter(const std::vector<Layer*>& layers, const Visit& visit) {
  std::int64_t begin = 0;
  for (Layer* layer : layers) {
    for (std::size_t k = 0; k < layer->parameters().size(); ++k) {
      Parameter& parameter = layer->parameters()[k];
      visit(*layer, parameter, static_cast<int>(k), Range{begin, begin + parameter.size});
      begin += parameter.size;
    }
  }
}

Slice slice_of(const Tensor& tensor, std::int64_t first, std::int64_t size) {
  if (tensor.empty()) return {};
  return tensor.all().part(first, size);
}

// Temporary memory of a device.
class Scratch {
 public:
  Scratch(Device& device, std::int64_t size) : device_(device) {
    if (size > 0) memory_ = device.allocate(size * 4);
  }
  ~Scratch() {
    if (memory_ == nullptr) return;
    device_.finish();
    device_.release(memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* numbers() const { return static_cast<float*>(memory_); }

 private:
  Device& device_;
  void* memory_ = nullptr;
};

// A shard's numbers, one after the other, from those of the whole.
void copy_shard(Device& device, const Shard& shard, const float* whole, float* own) {
  const bool has_rows = shard.row_size() == shard.width;
  if (has_rows) {
    device.copy(shard.size(), whole + shard.rows.begin * shard.width, own);
    return;
  }
  for (std::int64_t row = shard.rows.begin; row < shard.rows.end; ++row) {
    for (const Range& range : shard.columns) {
      device.copy(range.size(), whole + row * shard.width + range.begin, own);
      own += range.size();
    }
  }
}

void sort_ends(std::vector<std::int64_t>& ends) {
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.size() > 1 && ends.front() == 0) ends.erase(ends.begin());
}

}  // namespace

Parts::Parts(std::vector<std::int64_t> ends, int sharers)
    : ends_(std::move(ends)), sharers_(sharers) {}

Range Parts::segment(std::size_t index) const {
  return {index == 0 ? 0 : ends_[index - 1], ends_[index]};
}

std::size_t Parts::segment_at(std::int64_t number) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, number) - ends_.begin());
}

Range Parts::part(std::size_t segment, int sharer) const {
  const Range whole = this->segment(segment);
  const std::int64_t granules = (whole.size() + granule - 1) / granule;
  const std::int64_t each = (granules + sharers_ - 1) / sharers_ * granule;
  const auto at = [&](std::int64_t place) {
    return std::min(whole.end, whole.begin + place * each);
  };
  return {at(sharer), at(std::int64_t{sharer} + 1)};
}

std::vector<std::int64_t> cut(const std::vector<std::int64_t>& layer_ends, const Cuts& cuts) {
  std::vector<std::int64_t> ends{layer_ends.back()};
  if (cuts.by_layer) ends.insert(ends.end(), layer_ends.begin(), layer_ends.end());
  if (cuts.segment_bytes > 0) {
    const std::int64_t most = std::max<std::int64_t>(1, cuts.segment_bytes / 4);
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      for (end -= most; end > begin; end -= most) ends.push_back(end);
    };
    std::int64_t begin = 0;
    for (const std::int64_t end : cuts.by_layer ? layer_ends : std::vector{layer_ends.back()}) {
      add(std::exchange(begin, end), end);
    }
  }
  sort_ends(ends);
  return ends;
}

Parts cut(const std::vector<Layer*>& layers, const StateSplit& split, const Cuts& cuts) {
  const std::vector<std::int64_t> begins = begins_of(layers);
  std::vector<std::int64_t> ends = cut({begins.begin() + 1, begins.end()}, cuts);
  // The two ends of a tied matrix sum parts of it, which must be the same.
  for (std::size_t i = 0; split.splits(1) && i < layers.size(); ++i) {
    if (!layers[i]->shares_matrix()) continue;
    const Range matrix{begins[i], begins[i] + layers[i]->parameters()[tied_parameter].size};
    std::erase_if(ends, [&](std::int64_t end) { return matrix.begin < end && end < matrix.end; });
    ends.insert(ends.end(), {matrix.begin, matrix.end});
  }
  sort_ends(ends);
  return {std::move(ends), split.parts()};
}

std::vector<Piece> pieces_of(const std::vector<Layer*>& layers, const Parts& parts, int sharer) {
  std::vector<Piece> pieces;
  for_each_parameter(
      layers, [&](const Layer& layer, const Parameter& parameter, int index, const Range& at) {
        const auto add = [&](const Range& own) {
          const Range mine = common(own, at);
          if (mine.size() == 0) return;
          pieces.push_back({layer.index(),
                            index,
                            {mine.begin - at.begin, mine.end - at.begin},
                            mine,
                            parameter.decays,
                            parameter.is_copy,
                            parameter.is_partial});
        };
        if (parts.sharers() == 1) {
          add(at);
          return;
        }
        parts.for_each_in(at, [&](std::size_t i) { add(parts.part(i, sharer)); });
      });
  return pieces;
}

ParameterStore::ParameterStore(Device& device, Pool& pool, Number precision,
                               std::vector<Layer*> layers, const StateSplit& split,
                               const Cuts& cuts)
    : device_(device),
      pool_(pool),
      precision_(precision),
      layers_(std::move(layers)),
      split_(split),
      layer_begins_(begins_of(layers_)),
      size_(layer_begins_.back()),
      parts_(cut(layers_, split_, cuts)) {
  for (std::size_t i = 0; i < parts_.segments(); ++i) {
    const Range range = parts_.part(i, split_.splits(1) ? split_.own : 0);
    own_.push_back({range, own_size_});
    own_size_ += range.size();
  }
  const bool rounds = precision_ != Number::float32;
  const auto held = [&](int least_zero) { return split_.splits(least_zero) ? own_size_ : size_; };
  weight_ = rounds ? pool_.take(held(1), Use::optimizer) : pool_.take(held(3), Use::weights);
  if (rounds) rounded_ = pool_.take(held(3), Use::weights, precision_);
  layer_gradients_.resize(layers_.size());
  if (split_.splits(2)) {
    kept_gradient_ = pool_.take(own_size_, Use::gradients);
  } else {
    gradient_ = pool_.take(size_, Use::gradients);
  }
  first_ = pool_.take(held(1), Use::optimizer);
  second_ = pool_.take(held(1), Use::optimizer);
  for (const Tensor* zero : {&gradient_, &kept_gradient_, &first_, &second_}) {
    if (!zero->empty()) device_.fill(zero->size(), zero->data(), 0);
  }
  bind();
  find_pieces();
  fill_start();
}

void ParameterStore::bind() {
  for_each_parameter(layers_, [&](const Layer&, Parameter& parameter, int, const Range& at) {
    const auto whole = [&](const Tensor& tensor) {
      return tensor.size() == size_ ? slice_of(tensor, at.begin, at.size()) : Slice();
    };
    parameter.weight = whole(weight_);
    parameter.rounded = whole(rounded_);
    parameter.gradient = slice_of(gradient_, at.begin, at.size());
    parameter.first = split_.splits(1) ? Slice() : whole(first_);
    parameter.second = split_.splits(1) ? Slice() : whole(second_);
  });
}

void ParameterStore::find_pieces() {
  const bool rounds = precision_ != Number::float32;
  pieces_ = pieces_of(layers_, parts_, split_.own);
  for (Piece& piece : pieces_) {
    const Own& own = own_[parts_.segment_at(piece.in_stage.begin)];
    const auto of = [&](const Tensor& tensor, bool is_split) {
      const std::int64_t first =
          is_split ? own.place + piece.in_stage.begin - own.range.begin : piece.in_stage.begin;
      return slice_of(tensor, first, piece.in_stage.size());
    };
    piece.weight = of(weight_, split_.splits(rounds ? 1 : 3));
    piece.rounded = of(rounded_, split_.splits(3));
    piece.gradient = split_.splits(2) ? of(kept_gradient_, true) : of(gradient_, false);
    piece.first = of(first_, split_.splits(1));
    piece.second = of(second_, split_.splits(1));
  }
}

// A rank draws a whole parameter even for a part of it, so that it has the same values everywhere.
void ParameterStore::fill_start() {
  for_each_parameter(layers_, [&](const Layer&, const Parameter& parameter, int, const Range& at) {
    const bool in_place = !parameter.weight.empty() && !parameter.shard;
    const Scratch whole(device_, in_place ? 0 : parameter.whole_size);
    float* drawn = in_place ? parameter.weight.floats() : whole.numbers();
    if (parameter.start.deviation > 0) {
      device_.fill_normal(parameter.whole_size, drawn, parameter.key, parameter.start.deviation);
    } else {
      device_.fill(parameter.whole_size, drawn, parameter.start.value);
    }
    const Scratch shard(device_, parameter.shard ? parameter.size : 0);
    if (parameter.shard) copy_shard(device_, *parameter.shard, drawn, shard.numbers());
    put_weights(parameter, at, parameter.shard ? shard.numbers() : drawn);
  });
}

void ParameterStore::load_weights(const ReadWeights& read) {
  std::vector<float> numbers;
  for_each_parameter(
      layers_, [&](const Layer& layer, const Parameter& parameter, int index, const Range& at) {
        numbers.resize(static_cast<std::size_t>(parameter.size));
        read(layer, static_cast<std::size_t>(index), numbers.data());
        const Scratch there(device_, parameter.size);
        device_.upload(there.numbers(), numbers.data(), parameter.size * 4);
        put_weights(parameter, at, there.numbers());
      });
}

void ParameterStore::put_weights(const Parameter& parameter, const Range& at, const float* own) {
  const auto put = [&](const Range& numbers, const Slice& there) {
    if (there.empty() || there.memory() == own) return;
    device_.copy(numbers.size(), own + numbers.begin, there.data());
  };
  const Range all{0, parameter.size};
  put(all, parameter.weight);
  put(all, parameter.rounded);
  // Pieces stand in the order of the stage's numbers.
  auto first = std::ranges::lower_bound(pieces_, at.begin, {},
                                        [](const Piece& piece) { return piece.in_stage.begin; });
  for (; first != pieces_.end() && first->in_stage.begin < at.end; ++first) {
    const Piece& piece = *first;
    if (parameter.weight.empty()) put(piece.range, piece.weight);
    if (parameter.rounded.empty()) put(piece.range, piece.rounded);
  }
}

Slice ParameterStore::gradients(std::size_t segment) const {
  const Range range = parts_.segment(segment);
  if (!split_.splits(2) || has_all_gradients()) {
    return slice_of(gradient_, range.begin, range.size());
  }
  const std::size_t layer = layer_of(segment);
  return layer_gradients_[layer].part(range.begin - begin_of(layer), range.size());
}

Slice ParameterStore::operands(std::size_t segment) const {
  const Range range = parts_.segment(segment);
  if (by_layer_) {
    const std::size_t layer = layer_of(segment);
    return place_of(layer, whole_.all()).part(range.begin - begin_of(layer), range.size());
  }
  const Tensor& whole = split_.splits(3)                ? whole_
                        : precision_ == Number::float32 ? weight_
                                                        : rounded_;
  return slice_of(whole, range.begin, range.size());
}

void ParameterStore::start_step() {
  if (!kept_gradient_.empty()) {
    device_.fill(kept_gradient_.size(), kept_gradient_.data(), 0);
  }
}

void ParameterStore::keep_gradients(std::size_t segment) {
  const Own& own = own_[segment];
  if (kept_gradient_.empty() || own.range.size() == 0) return;
  const Slice mine = slice_of(kept_gradient_, own.place, own.range.size());
  const Slice sums =
      gradients(segment).part(own.range.begin - parts_.segment(segment).begin, own.range.size());
  device_.add(mine.size(), mine.floats(), sums.floats(), mine.data());
}

std::size_t ParameterStore::layer_of(std::size_t segment) const {
  const std::int64_t begin = parts_.segment(segment).begin;
  const auto next = std::ranges::upper_bound(layer_begins_, begin);
  return static_cast<std::size_t>(next - layer_begins_.begin()) - 1;
}

std::int64_t ParameterStore::largest_neighbours() const {
  std::int64_t largest = size_of(0);
  for (std::size_t i = 1; i < layers(); ++i) {
    largest = std::max(largest, size_of(i - 1) + size_of(i));
  }
  return largest;
}

Slice ParameterStore::place_of(std::size_t layer, const Slice& room) const {
  const std::int64_t size = size_of(layer);
  return room.part(layer % 2 == 0 ? 0 : room.size() - size, size);
}

void ParameterStore::bind_gradients(std::size_t layer, const Slice& gradients) {
  layer_gradients_[layer] = gradients;
  std::int64_t at = 0;
  for (Parameter& parameter : layers_[layer]->parameters()) {
    parameter.gradient = gradients.empty() ? Slice() : gradients.part(at, parameter.size);
    at += parameter.size;
  }
}

void ParameterStore::bind_read_weights(std::size_t layer, const Slice& weights) {
  std::int64_t at = 0;
  for (Parameter& parameter : layers_[layer]->parameters()) {
    Slice& read = precision_ == Number::float32 ? parameter.weight : parameter.rounded;
    read = weights.empty() ? Slice() : weights.part(at, parameter.size);
    at += parameter.size;
  }
}

void ParameterStore::make_gradients_in(const Slice& room, std::size_t layer) {
  bind_gradients(layer, place_of(layer, room));
}

void ParameterStore::make_all_gradients() {
  if (has_all_gradients()) return;
  gradient_ = pool_.take(size_, Use::workspace);
  for (std::size_t i = 0; i < layers(); ++i) {
    bind_gradients(i, slice_of(gradient_, begin_of(i), size_of(i)));
  }
}

void ParameterStore::release_all_gradients() {
  if (!split_.splits(2) || !has_all_gradients()) return;
  gradient_ = {};
  for (std::size_t i = 0; i < layers(); ++i) bind_gradients(i, {});
}

void ParameterStore::copy_own(std::size_t segment, const Slice& to) const {
  const Own& own = own_[segment];
  if (own.range.size() == 0) return;
  const Tensor& kept = precision_ == Number::float32 ? weight_ : rounded_;
  device_.copy(own.range.size(), slice_of(kept, own.place, own.range.size()).data(),
               to.part(own.range.begin - parts_.segment(segment).begin, own.range.size()).data());
}

void ParameterStore::make_whole() {
  by_layer_ = false;
  whole_ = pool_.take(size_, Use::unsharded, precision_);
  for (std::size_t i = 0; i < own_.size(); ++i) copy_own(i, operands(i));
  for (std::size_t i = 0; i < layers(); ++i) {
    bind_read_weights(i, slice_of(whole_, begin_of(i), size_of(i)));
  }
}

void ParameterStore::take_room_for_two() {
  by_layer_ = true;
  whole_ = pool_.take(largest_neighbours(), Use::unsharded, precision_);
}

void ParameterStore::place_own(std::size_t layer) {
  parts_.for_each_in(range_of(layer), [&](std::size_t i) { copy_own(i, operands(i)); });
  bind_read_weights(layer, place_of(layer, whole_.all()));
}

void ParameterStore::release_whole() {
  whole_ = {};
  for (std::size_t i = 0; i < layers(); ++i) bind_read_weights(i, {});
}

}  // namespace pipesim::exec
