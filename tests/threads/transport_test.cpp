// Transports among threads: the suite, random delays, and how they fail.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <tuple>

#include "exec/run/agreement.h"
#include "exec/run/ranks.h"
#include "exec/transport/collectives.h"
#include "exec/transport/local.h"
#include "tests/delayed_transport.h"
#include "tests/errors.h"
#include "tests/thorough.h"
#include "tests/transport_suite.h"

namespace pipesim {
namespace {

using exec::Bytes;
using exec::LocalWorld;
using exec::PeerFailed;
using exec::Ticket;
using exec::Transport;
using testing::DelayedTransport;
using testing::error_of;
using testing::no_limit;
using testing::Promises;

class LocalSuite : public ::testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  // What the ranks complain of, each with its transport wrapped.
  template <typename Wrap>
  std::vector<std::string> complaints(Wrap wrap) {
    const auto [ranks, limit] = GetParam();
    std::optional<std::int64_t> eager_limit_bytes;
    Promises promises;
    promises.done_below = std::int64_t{1} << 20;
    if (limit != no_limit) {
      eager_limit_bytes = limit;
      promises.waits_from = promises.done_below = limit;
    }
    std::mutex mutex;
    std::vector<std::string> all;
    exec::run_as_threads(ranks, eager_limit_bytes, [&](Transport& own) {
      const auto found = wrap(own, promises);
      const std::lock_guard lock(mutex);
      all.insert(all.end(), found.begin(), found.end());
    });
    return all;
  }
};

TEST_P(LocalSuite, Passes) {
  EXPECT_EQ(complaints(testing::check_transport), std::vector<std::string>());
}

TEST_P(LocalSuite, PassesWithRandomDelays) {
  for (unsigned seed = 0; seed < (testing::is_thorough() ? 3U : 1U); ++seed) {
    std::atomic<std::int64_t> delays = 0;
    const auto delayed = [&](Transport& own, const Promises& promises) {
      DelayedTransport slow(own, seed * 100 + static_cast<unsigned>(own.rank()));
      auto found = check_transport(slow, promises);
      delays += slow.delays();
      return found;
    };
    EXPECT_EQ(complaints(delayed), std::vector<std::string>());
    EXPECT_GT(delays, 10'000);
  }
}

INSTANTIATE_TEST_SUITE_P(Transport, LocalSuite,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(no_limit, std::int64_t{0},
                                                              std::int64_t{4096})));

// Rank 1 fails while the others wait for it, by wait() and by test().
TEST(LocalTransport, AFailureEndsTheWaitsOfOthers) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ended = 0;
    const auto work = [&](Transport& own) {
      if (own.rank() == 1) throw work_error("the disk is full");
      Bytes in(8);
      const Ticket ticket = own.receive(1, exec::first_free_tag, in);
      try {
        if (own.rank() == 0) own.wait(ticket);
        while (!own.test(ticket)) {
        }
      } catch (const PeerFailed&) {
        ++ended;
        throw;
      }
    };
    EXPECT_EQ(error_of([&] { exec::run_as_threads(3, {}, work); }), "the disk is full");
    EXPECT_EQ(ended, 2);
  }
}

// An error that is about another's is told only where there is no other.
TEST(LocalTransport, TheErrorOfTheLowestRankIsTold) {
  const auto all = [](Transport& own) { throw input_error(std::to_string(own.rank())); };
  EXPECT_EQ(error_of([&] { exec::run_as_threads(3, {}, all); }), "0");
  const auto last = [](Transport& own) {
    if (own.rank() == 2) throw work_error("2");
    exec::barrier(own);
  };
  EXPECT_EQ(error_of([&] { exec::run_as_threads(3, 0, last); }), "2");
}

// What is already there arrives even after a failure.
TEST(LocalTransport, WhatWasSentBeforeAFailureArrives) {
  LocalWorld world(2);
  const Bytes out(8, std::byte{7});
  Bytes in(8);
  Transport& sender = world.transport(0);
  sender.wait(sender.send(1, exec::first_free_tag, out));
  sender.fail(work_error("the disk is full"));
  Transport& receiver = world.transport(1);
  receiver.wait(receiver.receive(0, exec::first_free_tag, in));
  EXPECT_EQ(in, out);
}

// Buffers go while an error unwinds, and others go on sending and receiving.
TEST(LocalTransport, AnErrorLetsGoOfEveryBuffer) {
  constexpr int tag = exec::first_free_tag;
  LocalWorld world(2, 0);
  Transport& own = world.transport(0);
  Transport& other = world.transport(1);
  const Bytes small(4);
  Bytes theirs(16);
  {
    Bytes wrong(8);
    Bytes never(16);
    const Bytes out(16);
    own.receive(1, tag + 1, never);
    own.send(1, tag + 2, out);
    const Ticket ticket = own.receive(1, tag, wrong);
    other.send(0, tag, small);
    EXPECT_EQ(error_of([&] { own.wait(ticket); }).find("a message of 4 bytes came from rank 1"),
              0U);
  }
  const Ticket send = other.send(0, tag + 1, theirs);
  const Ticket receive = other.receive(0, tag + 2, theirs);
  EXPECT_FALSE(other.test(send));
  EXPECT_FALSE(other.test(receive));
  own.fail(work_error("the disk is full"));
  EXPECT_THROW(other.wait(send), PeerFailed);
}

// As a process of a job, an error of one's own has its last words and then
// fails the others; one that all agree on is left to main.
TEST(RunAsProcess, TellsOfErrorsThatOthersDontKnow) {
  LocalWorld world(2);
  Transport& own = world.transport(1);
  Transport& other = world.transport(0);
  std::string told;
  const auto tell = [&](const std::string& error) { told += error + "\n"; };
  Bytes in(1);
  const Ticket ticket = other.receive(1, exec::first_free_tag, in);

  const auto agreed = [](Transport&) {
    throw exec::AgreedError(Error::Cause::input, "no such schedule");
  };
  EXPECT_EQ(error_of([&] { exec::run_as_process(own, agreed, tell); }), "no such schedule");
  EXPECT_EQ(told, "");
  EXPECT_FALSE(other.test(ticket));

  const auto broken = [](Transport&) { throw work_error("the device is gone"); };
  EXPECT_EQ(exec::run_as_process(own, broken, tell).value().exit_status(), 1);
  EXPECT_EQ(told, "the device is gone\n");
  EXPECT_EQ(error_of([&] { other.test(ticket); }), "another rank failed: the device is gone");
}

}  // namespace
}  // namespace pipesim
