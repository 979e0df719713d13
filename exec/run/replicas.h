// A rank's exchanges with its replicas: gradients are reduced, and weights are gathered if states
// are split. A REDUCE_GRAD sums a stage's gradients over replicas, in the order of their ranks:
// first among those that shard states, each of which ends with its part, then, if there are several
// such groups, among those that have the same part. It proceeds segment by segment, and if it
// directly follows the action that makes the last gradients, a segment starts as soon as its own
// are ready. If gradients are split, a rank then has room for those of two layers: one makes them
// while the previous one's are reduced. An UNSHARD gathers weights, a RESHARD frees them; in
// between a stage has all of them, or each forward and backward gathers them layer by layer, the
// next one in advance. The memory held never depends on timing, except for what others send of
// several buckets. One rank, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/run/overlapped_collectives.h"
#include "exec/run/rank_groups.h"
#include "exec/run/shared_states.h"
#include "exec/run/stage.h"

namespace pipesim::exec {

class Replicas {
 public:
  struct Routes {
    // Sums are made by the transport's library, which must support them: all ranks create theirs
    // together.
    bool by_library = false;
    bool by_layer = false;  // a forward or backward gathers weights layer by layer
    bool in_turn = false;   // segments are reduced one at a time, else all that are ready
  };
  // All must outlive it.
  Replicas(RankGroups& groups, Pool& pool, OverlappedCollectives& beside, const Routes& ways);
  // Allocates the room that reductions of these stages, all of the rank's, need all the time.
  void take_room(const std::vector<std::unique_ptr<Stage>>& stages);

  // Whether there are other replicas.
  bool exist() const { return groups_.sharers.ranks() > 1 || groups_.likes.ranks() > 1; }

  void start_iteration();

  // The REDUCE_GRAD of the stage directly follows the next action.
  void will_reduce(const SharedStates& stage) { state_of(stage).is_expected = true; }
  // The backward has completed a stage's sums from `begin` on.
  void has_gradients(SharedStates& stage, std::int64_t begin);
  void reduce(SharedStates& stage);
  // Call before a backward adds gradients to the sums: waits until earlier ones have been
  // exchanged.
  void await_room(SharedStates& stage);
  // Call before a layer does.
  void make_room(Stage& stage, std::size_t layer);

  // Return whether there was anything to do.
  bool unshard(SharedStates& stage);
  bool reshard(SharedStates& stage);
  // Call before a stage computes: waits for its weights.
  void await_whole(const SharedStates& stage);
  // Call before a layer computes in a forward or, going `back`, a backward.
  void await_layer(Stage& stage, std::size_t layer, bool back);

  // After each sharer has stepped its part of weights that all have: gathers them, and waits.
  void gather_stepped(SharedStates& stage);

 private:
  struct State {
    bool is_expected = false;
    std::optional<OverlappedCollectives::Id> reduction;  // in progress, or not polled since
    std::size_t to_start = 0;                            // segments of it, from the last one down
    std::optional<OverlappedCollectives::Id> gather;
    std::array<std::optional<std::size_t>, 2>
        gathered;                        // layers, by place; maybe still in progress
    std::array<int, 2> gathering{};      // exchanges of these in progress
    std::map<Kind, std::int32_t> count;  // of collectives of this iteration
  };
  State& state_of(const SharedStates& stage) { return states_[stage.index()]; }
  Action next_of(SharedStates& stage, Kind kind);
  // Starts the segments whose numbers are all at `begin` or later.
  void start_segments(SharedStates& stage, std::int64_t begin);
  OverlappedCollectives::Part reduction_of(SharedStates& stage, std::size_t segment);
  OverlappedCollectives::Part reduction_in_order(const SharedStates& stage, std::size_t segment);
  OverlappedCollectives::Part reduction_by_library(const SharedStates& stage, std::size_t segment);
  OverlappedCollectives::Part gather_of(const SharedStates& stage, std::size_t segment);
  void start_layer(Stage& stage, std::size_t layer);
  std::int64_t largest_receipt(const Parts& parts) const;

  RankGroups& groups_;
  Pool& pool_;
  OverlappedCollectives& beside_;
  std::unique_ptr<LibrarySums> library_;     // over replicas, if sums are the library's
  std::unique_ptr<LibraryGathers> gathers_;  // over sharers, if devices are linked
  Routes ways_;
  std::map<int, State> states_;  // by stage
  // If gradients are split: room for two layers of them, and for received ones.
  Tensor made_, received_;
  std::array<int, 2> reducing_{};  // unfinished segments of the layer at each place
};

}  // namespace pipesim::exec
