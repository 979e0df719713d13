// What layers learn, and what an optimizer keeps of it: in arrays of all numbers of a
// stage, one behind the other, of which a rank may hold a part.
//
// Replicas that share states (ZeRO, Rajbhandari et al., arXiv 1910.02054) cut a stage's
// numbers into segments and each segment into as many parts as they are; the rank at a
// place holds the part of that place of every segment. An operator sees whole arrays: those
// that are split stand there whole only while they are needed, of a stage or layer by layer. Then
// no segment is of two layers, and two layers that follow each other have room side by side. One
// rank, one thread.
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

// How a parameter starts: all alike, or normal with that deviation.
struct Start {
  float value = 0;
  float deviation = 0;
};

// Slices are empty where a rank has no whole array of theirs.
struct Parameter {
  std::string name;
  std::int64_t size = 0;  // that this rank has of it
  Start start;
  std::int64_t whole_size = 0;
  std::optional<Shard> shard = {};  // of the whole, where tensor-parallel ranks split it
  // Of one that each of several tensor-parallel ranks has whole: so; and whether its gradients
  // are of the rank's own tokens, so that the ranks' sums are still to be added up.
  bool is_copy = false;
  bool is_partial = false;
  RandomKey key;        // of its start
  bool decays = false;  // AdamW's weight decay applies
  Slice weight = {};    // float32, which the optimizer steps
  Slice rounded = {};   // what operators read, where the precision is another
  Slice gradient = {};  // float32; the sum over tokens, divided only by the optimizer
  Slice first = {};     // AdamW's moments
  Slice second = {};
};

// How a rank splits states with others.
struct StateSplit {
  int sharers = 1;
  int own = 0;   // its place among them
  int zero = 0;  // 1: the optimizer's states are split; 2: and gradients; 3: and weights

  bool splits(int least_zero) const { return sharers > 1 && zero >= least_zero; }
  // Of how many parts the optimizer's states are.
  int parts() const { return splits(1) ? sharers : 1; }
};

// Which part of the numbers is whose.
class Parts {
 public:
  // `ends` of the segments, ascending; the last is the number of all.
  Parts(std::vector<std::int64_t> ends, int sharers);

  std::size_t segments() const { return ends_.size(); }
  Range segment(std::size_t index) const;
  // Parts of a segment are equal but for the last ones, which may be shorter or empty.
  Range part(std::size_t segment, int sharer) const;
  int sharers() const { return sharers_; }

 private:
  std::vector<std::int64_t> ends_;
  int sharers_;
};

// Where to cut a stage's numbers.
struct Cuts {
  bool by_layer = false;  // at each layer's end
  // Of gradients, at most, from the end of all, or of each layer, on; 0: all at once.
  std::int64_t segment_bytes = 0;
};

// The ends of segments of layers that end there, ascending; the last is the number of all.
std::vector<std::int64_t> cut(const std::vector<std::int64_t>& layer_ends, const Cuts& cuts);
// How layers that share a store are cut.
Parts cut(const std::vector<Layer*>& layers, const StateSplit& split, const Cuts& cuts);

// Numbers of a parameter that one rank steps, and where they stand.
struct Piece {
  int layer = 0;  // of the model
  int parameter = 0;
  Range range;     // of the parameter's numbers
  Range in_stage;  // of the stage's
  bool decays = false;
  bool is_copy = false, is_partial = false;  // as the parameter is
  Slice weight = {}, rounded = {}, gradient = {}, first = {}, second = {};
};
// Those of a sharer, in the order of the model and without slices: whole parameters where
// nothing is split.
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
  std::int64_t size_of(std::size_t layer) const {
    return layer_begins_[layer + 1] - layer_begins_[layer];
  }
  std::size_t layers() const { return layers_.size(); }
  std::size_t layer_of(std::size_t segment) const;
  // Numbers of two layers that follow each other, at most; or of the only one.
  std::int64_t largest_neighbours() const;

  // Of a segment: gradients as layers sum them up, and weights as operators read them.
  Slice gradients(std::size_t segment) const;
  Slice operands(std::size_t segment) const;

  // What is kept of gradients starts anew.
  void start_step();
  // Where gradients are split: adds the rank's part of a segment to what it keeps.
  void keep_gradients(std::size_t segment);

  // Where gradients are split, they are made in room that is there for a while: of a layer, in
  // its place within room for two that the caller has; of all, in room of the store.
  void make_gradients_in(const Slice& room, std::size_t layer);
  void make_all_gradients();
  void release_all_gradients();
  bool has_all_gradients() const { return !gradient_.empty(); }

  // Where weights are split: makes room for all of them, with the rank's own part in place, or
  // for two layers that follow each other, with nothing in it; and lets go of it.
  void make_whole();
  void take_room_for_two();
  void release_whole();
  bool is_whole() const { return !split_.splits(3) || !whole_.empty(); }
  // Puts the rank's own part of a layer into the room for two.
  void place_own(std::size_t layer);

  // What this rank steps, in the order of the model.
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  struct Own {
    Range range;         // of the stage's numbers
    std::int64_t place;  // of the first of them among the rank's own
  };
  void fill_start();
  // Puts a parameter's numbers, which stand at `own`, wherever the rank keeps some of them.
  void put_weights(const Parameter& parameter, const Range& at, const float* own);
  void bind();
  void bind_gradients(std::size_t layer, const Slice& gradients);
  void bind_read_weights(std::size_t layer, const Slice& weights);
  void find_pieces();
  // A layer's place within room for two: the next one's begins where this one's does not reach.
  Slice place_of(std::size_t layer, const Slice& room) const;
  void copy_own(std::size_t segment, const Slice& to) const;

  Device& device_;
  Pool& pool_;
  Number precision_;
  std::vector<Layer*> layers_;
  StateSplit split_;
  std::vector<std::int64_t> layer_begins_;  // and the number of all
  std::int64_t size_;
  Parts parts_;
  std::vector<Own> own_;  // the rank's part of each segment
  std::int64_t own_size_ = 0;
  // Whole, or the rank's own numbers where they are split.
  Tensor weight_, rounded_, first_, second_;
  Tensor gradient_;        // whole; where gradients are split, while all of them are made
  Tensor kept_gradient_;   // own, where gradients are split
  Tensor whole_;           // weights as operators read them, while they are gathered
  bool by_layer_ = false;  // two layers of them
  std::vector<Slice> layer_gradients_;  // where gradients are split, of each layer
  std::vector<Piece> pieces_;
};

}  // namespace pipesim::exec
