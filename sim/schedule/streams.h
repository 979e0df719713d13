// Streams, each of which runs its actions in order. The table says which stream an action is on.
// The streams' numbers and names come from here, for the deadlock check, the simulator and
// comparisons.
//
//   stream      has                                          its rank goes on
//   compute     F, I, W, B, what ends an iteration, and      after their ends
//               the calls of exchanges with replicas         at once
//   transfers   SEND and RECV, both ends of a transfer each  at once
//               at its own rank; see TransferLane
//   exchanges   UNSHARD and REDUCE_GRAD, in the order        at once
//               in which they are called
//
// Between streams an action waits for what it needs (traces/dependency.h) and for what its schedule
// adds (Schedule::dependencies). Plain values and numbers; one owner, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace pipesim {

// Which stream has the ends of a transfer, each at its own rank.
enum class TransferLane : std::uint8_t {
  compute,  // among the rank's compute
  rank,     // one stream for all transfers of the rank
  edge,     // one for each directed pair of ranks
};

// Numbers of the streams of all ranks: 0 to ranks - 1 are the compute streams.
class Streams {
 public:
  Streams(int ranks, TransferLane lane)
      : ranks_(ranks), lane_(lane), count_(lane == TransferLane::rank ? 2 * ranks : ranks) {}

  int compute(int rank) const { return rank; }
  // The stream for `owner`'s end of transfers from one rank to another.
  int transfers(int owner, int from, int to) {
    if (lane_ == TransferLane::compute) return owner;
    if (lane_ == TransferLane::rank) return ranks_ + owner;
    return numbered({owner, from, to});
  }
  int exchanges(int rank) { return numbered({rank, rank, rank}); }

  // So far; edges and exchanges are numbered when first asked for.
  int count() const { return count_; }
  // "rank 0", "rank 0's transfers", "rank 0's end of edge 0->1", by number.
  std::vector<std::string> names() const;

 private:
  using Ends = std::tuple<int, int, int>;  // owner, sender, receiver; of exchanges one rank

  int numbered(const Ends& ends) {
    const auto [at, is_new] = numbers_.try_emplace(ends, count_);
    if (is_new) ++count_;
    return at->second;
  }

  int ranks_;
  TransferLane lane_;
  int count_;
  std::map<Ends, int> numbers_;
};

}  // namespace pipesim
