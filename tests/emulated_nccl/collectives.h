// The collectives of a communicator: all ranks give what they have to rank 0, which adds sums up
// from the last rank down, and hands out what each wants.
//
// Collectives have numbers, in the order in which their streams came to them. Nothing here waits.
// Like all of a communicator, under the emulated GPU's lock, with the GPU's memory open.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/emulated_nccl/wire.h"

namespace emulated_nccl {

struct Collective {
  enum class Kind : std::uint32_t { all_reduce, reduce_scatter, reduce, all_gather, broadcast };
  // What ranks must agree on; reduce_scatter and all_gather count the bytes of one rank.
  struct Terms {
    Kind kind = Kind::all_reduce;
    std::int32_t root = 0;
    std::uint64_t bytes = 0;

    bool adds() const { return kind < Kind::all_gather; }

    bool operator==(const Terms&) const = default;
  };

  Terms terms;
  const char* from = nullptr;
  char* to = nullptr;
  bool is_lost = false;
  bool is_done = false;

  // What a rank of so many gives, and takes.
  std::size_t bytes_from(int rank, int ranks) const;
  std::size_t bytes_to(int rank, int ranks) const;
};

class Collectives {
 public:
  // `say` sends a frame to a rank: to 0, or, as 0, to any.
  using Say = std::function<void(int rank, const Frame& frame, const void* payload)>;
  Collectives(int ranks, int rank, Say say) : ranks_(ranks), rank_(rank), say_(std::move(say)) {}

  // Its stream has come to it; it stays where it is until it is done. False where ranks don't agree
  // on one, as below.
  bool start(Collective& one);
  // A frame that was said to this rank.
  bool heed(int from, const Frame& frame, const std::string& payload);
  void abandon() { open_.clear(); }

 private:
  struct Given {
    Collective::Terms terms;
    std::string bytes;
  };
  // All that are there, on rank 0; whether ranks agree on them.
  bool finish();

  int ranks_;
  int rank_;
  Say say_;
  std::deque<Collective*> open_;                         // that were started, and are not done
  std::uint64_t first_ = 0;                              // the number of the first of them
  std::map<std::uint64_t, std::map<int, Given>> given_;  // by number and rank, on rank 0
};

}  // namespace emulated_nccl
