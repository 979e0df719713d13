// Exchanges with replicas, and what hides them, against counting nanosecond by nanosecond.
#include "traces/collective_times.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace pipesim {
namespace {

TEST(CollectiveTimes, CountsEachInstantOnce) {
  std::mt19937 random(7);
  const auto draw = [&](int below) {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(below));
  };
  for (int i = 0; i < 200; ++i) {
    std::vector<Span> spans;
    std::set<std::pair<int, int>> exchanging, computing;  // (rank, instant)
    for (int k = draw(12); k > 0; --k) {
      const int rank = draw(2);
      const int start = draw(40);
      const int end = start + draw(15);
      const int kind = draw(4);
      const Action action = kind == 0   ? make_collective(0, Kind::REDUCE_GRAD, k)
                            : kind == 1 ? make_collective(0, Kind::UNSHARD, k)
                            : kind == 2 ? make_action(0, Kind::B, k)
                                        : make_action(0, Kind::SEND_B, k);
      spans.push_back({action, rank, 0, start, end});
      if (kind == 3) continue;  // hides nothing
      for (int t = start; t < end; ++t) (kind < 2 ? exchanging : computing).emplace(rank, t);
    }
    const std::vector<CollectiveTimes> times = collective_times(spans, 2);
    for (int rank = 0; rank < 2; ++rank) {
      std::int64_t total = 0, hidden = 0;
      for (const auto& at : exchanging) {
        total += at.first == rank;
        hidden += at.first == rank && computing.contains(at);
      }
      EXPECT_EQ(times[static_cast<std::size_t>(rank)].total_ns, total);
      EXPECT_EQ(times[static_cast<std::size_t>(rank)].hidden_ns, hidden);
      EXPECT_EQ(times[static_cast<std::size_t>(rank)].exposed_ns(), total - hidden);
    }
  }
}

}  // namespace
}  // namespace pipesim
