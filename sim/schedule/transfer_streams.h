// Which streams transfers stand on: stated once for the deadlock check, the simulator and
// comparisons.
//
// A stream runs what stands on it in order. Streams are numbered: 0 to ranks - 1 are what
// ranks compute on, those for transfers follow. One owner, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace pipesim {

// Where both ends of a transfer stand, each at its own rank.
enum class TransferLane : std::uint8_t {
  compute,  // among what the rank computes
  rank,     // on one stream for all transfers of the rank
  edge,     // on one for each directed pair of ranks
};

class TransferStreams {
 public:
  TransferStreams(int ranks, TransferLane lane)
      : ranks_(ranks), lane_(lane), count_(lane == TransferLane::rank ? 2 * ranks : ranks) {}

  // Of `owner`'s end of what goes from one rank to another.
  int at(int owner, int from, int to) {
    if (lane_ == TransferLane::compute) return owner;
    if (lane_ == TransferLane::rank) return ranks_ + owner;
    const auto [end, is_new] = ends_.try_emplace({owner, from, to}, count_);
    if (is_new) ++count_;
    return end->second;
  }
  // Of those there are so far; with edges there are more once they are asked for.
  int count() const { return count_; }
  // "rank 0", "rank 0's transfers", "rank 0's end of edge 0->1", by number.
  std::vector<std::string> names() const;

 private:
  int ranks_;
  TransferLane lane_;
  int count_;
  std::map<std::tuple<int, int, int>, int> ends_;  // of edges: (owner, sender, receiver)
};

}  // namespace pipesim
