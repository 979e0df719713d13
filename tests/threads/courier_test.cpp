// What streams of a rank exchange by way of its one thread: sizes, lanes, and how it ends.
#include "exec/input_pipeline/courier.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "exec/run/ranks.h"
#include "tests/errors.h"

namespace pipesim {
namespace {

using exec::Bytes;
using exec::Courier;
using exec::Transport;
using testing::error_of;

// Does `work` on a thread for each lane, while the transport's own carries.
template <typename Work>
void on_lanes(Transport& transport, int lanes, const Work& work) {
  Courier courier(transport);
  std::atomic<int> left = lanes;
  std::vector<std::jthread> threads;
  for (int lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      try {
        work(courier, lane);
      } catch (const Courier::Stopped&) {
      }
      if (--left == 0) courier.stop();
    });
  }
  courier.carry();
}

// Bytes that tell who gave them, to whom, and in which round of which lane.
Bytes gift(int from, int to, int lane, int round) {
  const int sizes[] = {0, 1, 55, 56, 57, 4096, 300'000};
  const auto size = static_cast<std::size_t>(sizes[(from + 2 * to + 3 * lane + round) % 7]);
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i + static_cast<std::size_t>(from + 5 * to + 11 * lane) +
                                      static_cast<std::size_t>(17 * round));
  }
  return bytes;
}

class CourierLanes : public ::testing::TestWithParam<std::tuple<int, std::optional<std::int64_t>>> {
};

TEST_P(CourierLanes, BringWhatEachRankGave) {
  constexpr int lanes = 3, rounds = 40;
  const auto [ranks, eager_limit] = GetParam();
  std::atomic<int> right = 0;
  exec::run_as_threads(ranks, eager_limit, [&](Transport& transport) {
    on_lanes(transport, lanes, [&](Courier& courier, int lane) {
      const int own = courier.rank();
      for (int round = 0; round < rounds; ++round) {
        std::vector<Bytes> given, expected;
        for (int other = 0; other < courier.ranks(); ++other) {
          given.push_back(gift(own, other, lane, round));
          expected.push_back(gift(other, own, lane, round));
        }
        if (courier.exchange(lane, "GIFT", std::move(given)) == expected) ++right;
      }
    });
  });
  EXPECT_EQ(right, ranks * lanes * rounds);
}

INSTANTIATE_TEST_SUITE_P(Courier, CourierLanes,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(std::nullopt, 0, 1000)));

// Rank 1 comes to lane 0 only when lane 1 is done, with which rank 0 begins last.
TEST(Courier, LanesDontWaitForEachOther) {
  exec::run_as_threads(2, {}, [](Transport& transport) {
    std::latch second_is_done(1);
    on_lanes(transport, 2, [&](Courier& courier, int lane) {
      if (courier.rank() == 1 && lane == 0) second_is_done.wait();
      courier.exchange(lane, "GIFT", {Bytes(1), Bytes(1)});
      if (lane == 1) second_is_done.count_down();
    });
  });
}

TEST(Courier, PatienceEndsAllThatWaits) {
  std::latch all_gave_up(1);
  const auto work = [&](Transport& transport) {
    if (transport.rank() == 1) return all_gave_up.wait();
    transport.set_patience(std::chrono::milliseconds(20));
    std::atomic<int> stopped = 0;
    const std::string error = error_of([&] {
      on_lanes(transport, 3, [&](Courier& courier, int lane) {
        try {
          courier.exchange(lane, "IDS4", {Bytes(1), Bytes(1)});
        } catch (const Courier::Stopped&) {
          ++stopped;
          throw;
        }
      });
    });
    EXPECT_EQ(error, "IDS4: waited 20.00 ms for a message from rank 1; --timeout allows no more");
    EXPECT_EQ(stopped, 3);
    all_gave_up.count_down();
  };
  exec::run_as_threads(2, {}, work);
}

TEST(Courier, EndsWithAPeerThatFails) {
  for (int round = 0; round < 50; ++round) {
    const auto work = [&](Transport& transport) {
      on_lanes(transport, 2, [&](Courier& courier, int lane) {
        for (int i = 0; i < 3; ++i) courier.exchange(lane, "GIFT", std::vector<Bytes>(3));
        if (courier.rank() == 2) return;
        courier.exchange(lane, "GIFT", std::vector<Bytes>(3));
      });
      throw work_error("the disk is full");
    };
    EXPECT_EQ(error_of([&] { exec::run_as_threads(3, {}, work); }), "the disk is full");
  }
}

// Also what is handed in later.
TEST(Courier, StoppingEndsExchanges) {
  std::atomic<int> stopped = 0;
  exec::run_as_threads(2, {}, [&](Transport& transport) {
    if (transport.rank() == 1) return;
    Courier courier(transport);
    std::vector<std::jthread> threads;
    for (int lane = 0; lane < 3; ++lane) {
      threads.emplace_back([&, lane] {
        if (lane == 2) courier.stop();
        try {
          courier.exchange(lane, "GIFT", std::vector<Bytes>(2));
        } catch (const Courier::Stopped&) {
          ++stopped;
        }
      });
    }
    courier.carry();
  });
  EXPECT_EQ(stopped, 3);
}

}  // namespace
}  // namespace pipesim
