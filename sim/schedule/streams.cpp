#include "sim/schedule/streams.h"

#include <fmt/format.h>

#include <cstddef>

namespace pipesim {

std::vector<std::string> Streams::names() const {
  std::vector<std::string> names(static_cast<std::size_t>(count_));
  const auto name = [&](int stream) -> std::string& {
    return names[static_cast<std::size_t>(stream)];
  };
  for (int rank = 0; rank < ranks_; ++rank) {
    name(rank) = fmt::format("rank {}", rank);
    if (lane_ == TransferLane::rank) name(ranks_ + rank) = fmt::format("rank {}'s transfers", rank);
  }
  for (const auto& [ends, stream] : numbers_) {
    const auto& [owner, from, to] = ends;
    name(stream) = from == to ? fmt::format("rank {}'s exchanges", owner)
                              : fmt::format("rank {}'s end of edge {}->{}", owner, from, to);
  }
  return names;
}

}  // namespace pipesim
