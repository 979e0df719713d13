// The rank of each virtual stage.
//
// A model is cut into virtual stages 0..S-1, in order; each lives on one
// rank, and a rank's stages, in ascending order, are its chunks. A bidirectional schedule has two
// copies of each stage, on different ranks: the first half of an iteration's microbatches goes
// through the first
// copies, the others through the second. Immutable after construction.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/action.h"

namespace pipesim {

class Placement {
 public:
  Placement() = default;
  // `rank_of_stage[s]` is the rank of stage s; every rank 0..max holds one.
  explicit Placement(std::vector<int> rank_of_stage) : Placement(std::move(rank_of_stage), {}, 0) {}
  // With second copies of all stages, on other ranks than the first copies; `microbatches`, an even
  // number, is per iteration. A stage has the same place among the chunks of both ranks.
  Placement(std::vector<int> rank_of_stage, std::vector<int> rank_of_second, int microbatches);

  // Stage s on rank s mod p: the looped placement of interleaved schedules.
  static Placement loop(int ranks, int chunks);
  // Down and up again: rank r holds stages r, 2p-1-r, 2p+r, ...
  static Placement v(int ranks, int chunks);
  // Stage s on ranks s and p-1-s.
  static Placement both_ways(int ranks, int microbatches);
  // "loop", "v", or the rank of each stage as a list: "0,1,1,0".
  static Placement parse(std::string_view text, int ranks, int chunks);

  int ranks() const { return static_cast<int>(stages_of_rank_.size()); }
  int stages() const { return static_cast<int>(chunk_of_stage_.size()); }
  int microbatches() const { return microbatches_; }  // of an iteration; 0 without second copies
  int copies() const { return rank_of_second_.empty() ? 1 : 2; }
  // Which copy a microbatch goes through; microbatches are numbered across iterations.
  int copy_of(int microbatch) const {
    return copies() == 2 && microbatch % microbatches_ >= microbatches_ / 2 ? 1 : 0;
  }
  int rank_of(int stage, int copy = 0) const {
    return (copy == 0 ? rank_of_stage_ : rank_of_second_)[static_cast<std::size_t>(stage)];
  }
  // For an action with a microbatch.
  int rank_of(const Action& action) const {
    return rank_of(action.stage, copy_of(action.microbatch));
  }
  // Whether a copy of a stage lives on a rank.
  bool has(int rank, int stage) const {
    return rank_of(stage) == rank || (copies() == 2 && rank_of(stage, 1) == rank);
  }
  int chunk_of(int stage) const { return chunk_of_stage_[static_cast<std::size_t>(stage)]; }
  const std::vector<int>& stages_of(int rank) const {
    return stages_of_rank_[static_cast<std::size_t>(rank)];
  }
  // The stage that names a rank's own actions, such as its optimizer step: the first of those whose
  // first copy is there.
  int name_stage(int rank) const;
  const std::vector<int>& rank_of_stage() const { return rank_of_stage_; }
  const std::vector<int>& rank_of_second() const { return rank_of_second_; }  // empty: no copies
  const std::vector<int>& chunk_of_stage() const { return chunk_of_stage_; }
  int chunks() const;  // the most on any rank, second copies included
  // --virtual-stages: the most on any rank, per copy.
  int virtual_stages() const { return chunks() / copies(); }
  bool even() const;  // all ranks hold equally many
  bool is_loop() const;

  bool operator==(const Placement& other) const {
    return rank_of_stage_ == other.rank_of_stage_ && rank_of_second_ == other.rank_of_second_ &&
           microbatches_ == other.microbatches_;
  }

 private:
  std::vector<int> rank_of_stage_;
  std::vector<int> rank_of_second_;
  int microbatches_ = 0;  // of an iteration, if there are second copies
  std::vector<int> chunk_of_stage_;
  std::vector<std::vector<int>> stages_of_rank_;
};

// "4 stages", or "4 stages x 2 chunks": here a stage is all that a rank of the pipeline holds, and
// its chunks are virtual stages.
std::string shape_text(const Placement& placement);

}  // namespace pipesim
