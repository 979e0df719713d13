// Where each virtual stage lives.
//
// A model is cut into virtual stages 0..S-1, in order; each lives on one
// rank, and a rank's stages, in ascending order, are its chunks. Immutable
// after construction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

class Placement {
 public:
  Placement() = default;
  // `rank_of_stage[s]` is the rank of stage s; every rank 0..max holds one.
  explicit Placement(std::vector<int> rank_of_stage);

  // Stage s on rank s mod p: the looped placement of interleaved schedules.
  static Placement loop(int ranks, int chunks);
  // Down and up again: rank r holds stages r, 2p-1-r, 2p+r, ...
  static Placement v(int ranks, int chunks);
  // "loop", "v", or the rank of each stage as a list: "0,1,1,0".
  static Placement parse(std::string_view text, int ranks, int chunks);

  int ranks() const { return static_cast<int>(stages_of_rank_.size()); }
  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  int rank_of(int stage) const { return rank_of_stage_[static_cast<std::size_t>(stage)]; }
  int chunk_of(int stage) const { return chunk_of_stage_[static_cast<std::size_t>(stage)]; }
  const std::vector<int>& stages_of(int rank) const {
    return stages_of_rank_[static_cast<std::size_t>(rank)];
  }
  const std::vector<int>& rank_of_stage() const { return rank_of_stage_; }
  const std::vector<int>& chunk_of_stage() const { return chunk_of_stage_; }
  int chunks() const;  // the most that a rank holds
  bool even() const;   // every rank holds as many
  bool is_loop() const;

  bool operator==(const Placement& other) const { return rank_of_stage_ == other.rank_of_stage_; }

 private:
  std::vector<int> rank_of_stage_;
  std::vector<int> chunk_of_stage_;
  std::vector<std::vector<int>> stages_of_rank_;
};

}  // namespace pipesim
