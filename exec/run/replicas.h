// What a rank exchanges with its replicas: gradients are reduced, and where states are split
// weights are gathered.
//
// A REDUCE_GRAD sums a stage's gradients over replicas, in the order of their ranks: first
// among those that share states, each of which ends with its part, then, where there are
// several such groups, among those that have the same part. It goes segment by segment, and where
// it stands straight behind the action that makes the last gradients a segment goes as soon as its
// own are there. Where gradients are split, a rank has room then for those of two layers: one
// makes them while those of the one before are reduced. An UNSHARD gathers weights, a RESHARD lets
// go of them; in between a stage has all of them, or each forward and backward gathers them layer
// by layer, the next one beside. How much is held never depends on what comes when, but for what
// others send of several buckets. One rank, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/run/beside.h"
#include "exec/run/rank_groups.h"
#include "exec/run/shared_states.h"
#include "exec/run/stage.h"

namespace pipesim::exec {

class Replicas {
 public:
  struct Ways {
    // Sums are the transport's library's, which must have some: all ranks make theirs together.
    bool by_library = false;
    bool by_layer = false;  // a forward or backward gathers weights so
    bool in_turn = false;   // segments are reduced one at a time, else as many as are there
  };
  // All outlive it.
  Replicas(RankGroups& groups, Pool& pool, Beside& beside, const Ways& ways);
  // Takes the room that reductions of these stages, all of the rank, need all the time.
  void take_room(const std::vector<std::unique_ptr<Stage>>& stages);

  // Whether there are others.
  bool exist() const { return groups_.sharers.ranks() > 1 || groups_.likes.ranks() > 1; }

  void start_iteration();

  // The REDUCE_GRAD of the stage stands straight behind what comes next.
  void will_reduce(const SharedStates& stage) { state_of(stage).is_expected = true; }
  // What the backward has made so far of a stage's sums: those from `begin` on are whole.
  void has_gradients(SharedStates& stage, std::int64_t begin);
  void reduce(SharedStates& stage);
  // Before a backward adds gradients to the sums: those before have been exchanged.
  void await_room(SharedStates& stage);
  // Before a layer does.
  void make_room(Stage& stage, std::size_t layer);

  // Whether there was anything to do.
  bool unshard(SharedStates& stage);
  bool reshard(SharedStates& stage);
  // Before a stage computes.
  void await_whole(const SharedStates& stage);
  // Before a layer computes, of a forward or, going `back`, a backward.
  void await_layer(Stage& stage, std::size_t layer, bool back);

  // Each sharer steps its part of weights that all have: gathers them, and waits.
  void gather_stepped(SharedStates& stage);

 private:
  struct State {
    bool is_expected = false;
    std::optional<Beside::Id> reduction;  // under way, or not looked at since
    std::size_t to_start = 0;             // segments of it, from the last one down
    std::optional<Beside::Id> gather;
    std::array<std::optional<std::size_t>, 2> gathered;  // layers, by place; maybe still under way
    std::array<int, 2> gathering{};                      // of those, exchanges that are
    std::map<Kind, std::int32_t> count;                  // of collectives of this iteration
  };
  State& state_of(const SharedStates& stage) { return states_[stage.index()]; }
  Action next_of(SharedStates& stage, Kind kind);
  // Starts those segments whose numbers all stand at `begin` or behind.
  void start_segments(SharedStates& stage, std::int64_t begin);
  Beside::Part reduction_of(SharedStates& stage, std::size_t segment);
  Beside::Part reduction_in_order(const SharedStates& stage, std::size_t segment);
  Beside::Part reduction_by_library(const SharedStates& stage, std::size_t segment);
  Beside::Part gather_of(const SharedStates& stage, std::size_t segment);
  void start_layer(Stage& stage, std::size_t layer);
  std::int64_t largest_receipt(const Parts& parts) const;

  RankGroups& groups_;
  Pool& pool_;
  Beside& beside_;
  std::unique_ptr<LibrarySums> library_;     // over replicas, where sums are its own
  std::unique_ptr<LibraryGathers> gathers_;  // over sharers, where devices are linked
  Ways ways_;
  std::map<int, State> states_;  // by stage
  // Where gradients are split: room for two layers of them, and for what comes from others.
  Tensor made_, received_;
  std::array<int, 2> reducing_{};  // segments of the layer at each place that have not ended
};

}  // namespace pipesim::exec
