// The parameters of layers and their optimizer states: arrays of all numbers of a stage, one after
// the other, of which a rank may hold a part. Replicas that shard states (ZeRO, Rajbhandari et al.,
// arXiv 1910.02054) cut a stage's numbers into segments and each segment into one part per replica;
// replica i holds part i of every segment. An operator sees whole arrays: sharded ones are whole
// only while they are needed, for a stage or layer by layer. In the latter case no segment spans
// two layers, and there is room for two consecutive layers. One rank, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/model/range.h"
#include "exec/model/tensor.h"

namespace pipesim::exec {

class Layer;

// A parameter's initial values: a constant, or normal with that deviation.
struct Start {
  float value = 0;
  float deviation = 0;
};

// Slices are empty if the rank does not have that array whole.
struct Parameter {
  std::string name;
  std::int64_t size = 0;  // of this rank's part
  Start start;
  std::int64_t whole_size = 0;
  std::optional<Shard> shard = {};  // of the whole, if tensor-parallel ranks split it
  // Whether each of several tensor-parallel ranks has it whole; and whether its gradients are those
  // of the rank's own tokens, so that they are still to be summed over the ranks.
  bool is_copy = false;
  bool is_partial = false;
  RandomKey key;        // of its initial values
  bool decays = false;  // AdamW's weight decay applies
  Slice weight = {};    // float32, which the optimizer steps
  Slice rounded = {};   // what operators read, in another precision
  Slice gradient = {};  // float32; the sum over tokens, divided only by the optimizer
  Slice first = {};     // AdamW's moments
  Slice second = {};
};

// How a rank shards states with others.
struct StateSplit {
  int sharers = 1;
  int own = 0;   // its index among them
  int zero = 0;  // 1: the optimizer's states are split; 2: and gradients; 3: and weights

  bool splits(int least_zero) const { return sharers > 1 && zero >= least_zero; }
  // The number of parts of the optimizer's states.
  int parts() const { return splits(1) ? sharers : 1; }
};

// Which part of the numbers each sharer owns.
class Parts {
 public:
  // `ends` of the segments, ascending; the last is the number of all.
  Parts(std::vector<std::int64_t> ends, int sharers);

  std::size_t segments() const { return ends_.size(); }
  Range segment(std::size_t index) const;
  // The first segment that ends after that number.
  std::size_t segment_at(std::int64_t number) const;
  // Calls visit(index) for the segments that have numbers of the range.
  template <typename Visit>
  void for_each_in(const Range& range, const Visit& visit) const {
    for (std::size_t i = segment_at(range.begin); i < segments() && segment(i).begin < range.end;
         ++i) {
      visit(i);
    }
  }
  // Parts of a segment are equal, except the last ones, which may be shorter or empty.
  Range part(std::size_t segment, int sharer) const;
  int sharers() const { return sharers_; }

 private:
  std::vector<std::int64_t> ends_;
  int sharers_;
};

// Where to cut a stage's numbers.
struct Cuts {
  bool by_layer = false;  // at each layer's end
  // Maximum segment of gradients, cut from the end of the stage, or of each layer; 0: no limit.
  std::int64_t segment_bytes = 0;
};

// The ends of segments of layers with these ends, ascending; the last is the total.
std::vector<std::int64_t> cut(const std::vector<std::int64_t>& layer_ends, const Cuts& cuts);
// The parts of the layers of one store.
Parts cut(const std::vector<Layer*>& layers, const StateSplit& split, const Cuts& cuts);

// Numbers of a parameter that one rank steps, and where they are.
struct Piece {
  int layer = 0;  // of the model
  int parameter = 0;
  Range range;     // of the parameter's numbers
  Range in_stage;  // of the stage's
  bool decays = false;
  bool is_copy = false, is_partial = false;  // as in Parameter
  Slice weight = {}, rounded = {}, gradient = {}, first = {}, second = {};
};
// Those of a sharer, in the order of the model and without slices: whole parameters if nothing is
// split.
std::vector<Piece> pieces_of(const std::vector<Layer*>& layers, const Parts& parts, int sharer);

class ParameterStore {
 public:
  // Makes the states of the layers' parameters and hands them their slices. Device and pool
  // outlive it; layers compute as long as it is there.
  ParameterStore(Device& device, Pool& pool, Number precision, std::vector<Layer*> layers,
                 const StateSplit& split = {}, const Cuts& cuts = {});
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Weights become those that `read` puts at `to`, on the host: all that this rank has of a layer's
  // parameter.
  using ReadWeights = std::function<void(const Layer& layer, std::size_t parameter, float* to)>;
  void load_weights(const ReadWeights& read);

  const Parts& parts() const { return parts_; }
  const StateSplit& split() const { return split_; }
  // Where a layer's numbers begin, and how many it has.
  std::int64_t begin_of(std::size_t layer) const { return layer_begins_[layer]; }
  Range range_of(std::size_t layer) const { return {begin_of(layer), layer_begins_[layer + 1]}; }
  std::int64_t size_of(std::size_t layer) const {
    return layer_begins_[layer + 1] - layer_begins_[layer];
  }
  std::size_t layers() const { return layers_.size(); }
  std::size_t layer_of(std::size_t segment) const;
  // The most numbers of two consecutive layers; or those of the only one.
  std::int64_t largest_neighbours() const;

  // Of a segment: gradients as layers sum them, and weights as operators read them.
  Slice gradients(std::size_t segment) const;
  Slice operands(std::size_t segment) const;

  // Zeroes the kept gradients.
  void start_step();
  // If gradients are split: adds the rank's part of a segment to those it keeps.
  void keep_gradients(std::size_t segment);

  // If gradients are split, they are computed in temporary memory: for one layer, in its place in
  // the caller's room for two; for all, in the store's own.
  void make_gradients_in(const Slice& room, std::size_t layer);
  void make_all_gradients();
  void release_all_gradients();
  bool has_all_gradients() const { return !gradient_.empty(); }

  // If weights are split: allocates room for all of them, with the rank's own part in place, or for
  // two consecutive layers, uninitialized; and frees it.
  void make_whole();
  void take_room_for_two();
  void release_whole();
  bool is_whole() const { return !split_.splits(3) || !whole_.empty(); }
  // Puts the rank's own part of a layer into the room for two.
  void place_own(std::size_t layer);

  // The numbers that this rank steps, in the order of the model.
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  struct Own {
    Range range;         // of the stage's numbers
    std::int64_t place;  // index of the first of them among the rank's own
  };
  void fill_start();
  // Copies a parameter's numbers from `own` to wherever the rank keeps some of them.
  void put_weights(const Parameter& parameter, const Range& at, const float* own);
  void bind();
  void bind_gradients(std::size_t layer, const Slice& gradients);
  void bind_read_weights(std::size_t layer, const Slice& weights);
  void find_pieces();
  // A layer's place in room for two: consecutive layers do not overlap.
  Slice place_of(std::size_t layer, const Slice& room) const;
  void copy_own(std::size_t segment, const Slice& to) const;

  Device& device_;
  Pool& pool_;
  Number precision_;
  std::vector<Layer*> layers_;
  StateSplit split_;
  std::vector<std::int64_t> layer_begins_;  // and the total
  std::int64_t size_;
  Parts parts_;
  std::vector<Own> own_;  // the rank's part of each segment
  std::int64_t own_size_ = 0;
  // Whole, or the rank's own numbers if they are split.
  Tensor weight_, rounded_, first_, second_;
  Tensor gradient_;        // whole; if gradients are split, while all of them are computed
  Tensor kept_gradient_;   // own, if gradients are split
  Tensor whole_;           // weights as operators read them, while they are gathered
  bool by_layer_ = false;  // two layers of them
  std::vector<Slice> layer_gradients_;  // by layer, if gradients are split
  std::vector<Piece> pieces_;
};

}  // namespace pipesim::exec
