// Ranks that TCP connects, as threads: the suite, how they meet, and how they fail.
#include "exec/transport/tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "exec/device/peer_errors.h"
#include "exec/transport/collectives.h"
#include "exec/transport/hello.h"
#include "tests/delayed_transport.h"
#include "tests/errors.h"
#include "tests/tcp_world.h"
#include "tests/transport_suite.h"
#include "tests/words.h"

namespace pipesim {
namespace {

using exec::Bytes;
using exec::Hello;
using exec::JobToken;
using exec::make_tcp_transport;
using exec::TcpPlace;
using exec::Ticket;
using exec::Transport;
using testing::error_of;
using testing::no_limit;
using testing::Promises;
using testing::ReservedPort;
using testing::run_over_tcp;
using testing::Stranger;

constexpr int tag = exec::first_free_tag;

class TcpSuite : public ::testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  template <typename Wrap>
  std::vector<std::string> complaints(Wrap wrap) {
    const auto [ranks, limit] = GetParam();
    std::optional<std::int64_t> eager_limit_bytes;
    Promises promises;
    promises.waits_from = promises.done_below = std::int64_t{1} << 16;
    if (limit != no_limit) {
      eager_limit_bytes = limit;
      promises.waits_from = promises.done_below = limit;
    }
    std::mutex mutex;
    std::vector<std::string> all;
    run_over_tcp(ranks, eager_limit_bytes, [&](Transport& own) {
      const auto found = wrap(own, promises);
      const std::lock_guard lock(mutex);
      all.insert(all.end(), found.begin(), found.end());
    });
    return all;
  }
};

TEST_P(TcpSuite, Passes) {
  EXPECT_EQ(complaints(testing::check_transport), std::vector<std::string>());
}

TEST_P(TcpSuite, PassesWithRandomDelays) {
  const auto delayed = [&](Transport& own, const Promises& promises) {
    testing::DelayedTransport slow(own, static_cast<unsigned>(own.rank()));
    return check_transport(slow, promises);
  };
  EXPECT_EQ(complaints(delayed), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpSuite,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(no_limit, std::int64_t{0},
                                                              std::int64_t{4096})));

// More than the system's buffers hold, in both directions at once, and into one's own.
TEST(TcpTransport, LargeMessagesPassEachOther) {
  run_over_tcp(2, {}, [](Transport& own) {
    for (const int other : {own.rank(), 1 - own.rank()}) {
      const auto mark = [](int rank) { return std::byte{static_cast<unsigned char>(rank + 1)}; };
      const Bytes out(std::size_t{40} << 20U, mark(own.rank()));
      Bytes in(out.size());
      const Ticket send = own.send(other, tag, out);
      const Ticket receive = own.receive(other, tag, in);
      own.wait(receive);
      own.wait(send);
      EXPECT_EQ(in.front(), mark(other));
      EXPECT_EQ(in.back(), in.front());
      exec::barrier(own);
    }
  });
}

// What was under way is taken back or finished, and what comes after arrives whole.
TEST(TcpTransport, AbandonedMessagesLeaveNoTrace) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{60'000}, std::size_t{8} << 20U}) {
    run_over_tcp(2, {}, [&](Transport& own) {
      const int other = 1 - own.rank();
      for (int round = 0; round < 20; ++round) {
        Bytes given_up(size);
        {
          const Bytes out(size, std::byte{1});
          const Ticket receive = own.receive(other, tag, given_up);
          own.send(other, tag, out);
          for (int look = 0; look < round; ++look) {
            if (own.test(receive)) break;
          }
          own.abandon();
        }
        exec::barrier(own);
        const Bytes out(size, std::byte{2});
        Bytes in(size);
        const Ticket receive = own.receive(other, tag + 1, in);
        own.wait(own.send(other, tag + 1, out));
        own.wait(receive);
        EXPECT_EQ(in, out);
        exec::barrier(own);
      }
    });
  }
}

TEST(TcpTransport, AFailureEndsTheWaitsOfOthers) {
  for (int round = 0; round < 10; ++round) {
    std::mutex mutex;
    std::vector<std::string> said;
    const auto work = [&](Transport& own) {
      if (own.rank() == 1) throw work_error("the disk is full");
      Bytes in(8);
      const Ticket ticket = own.receive(own.rank() == 0 ? 1 : 0, tag, in);
      try {
        if (own.rank() == 0) own.wait(ticket);
        while (!own.test(ticket)) {
        }
      } catch (const exec::PeerFailed& error) {
        const std::lock_guard lock(mutex);
        said.emplace_back(error.what());
        throw;
      }
    };
    EXPECT_EQ(error_of([&] { run_over_tcp(3, {}, work); }), "the disk is full");
    // Also where rank 0 told of it first.
    EXPECT_EQ(said, std::vector<std::string>(2, "rank 1 failed: the disk is full"));
  }
}

// More is under way than the system's buffers hold, and rank 0 listens only once rank 1 has failed
// or waits for it.
TEST(TcpTransport, WordsReachRank0BehindWhatIsUnderWay) {
  std::latch failing(1);
  std::string said;
  // They outlive what is under way when the rank fails.
  const Bytes out(std::size_t{40} << 20U);
  std::array<Bytes, 2> buffers{Bytes(out.size()), Bytes(out.size())};
  const auto work = [&](Transport& own) {
    Bytes& in = buffers[static_cast<std::size_t>(own.rank())];
    const Ticket receive = own.receive(1 - own.rank(), tag, in);
    exec::barrier(own);
    own.send(1 - own.rank(), tag, out);
    if (own.rank() == 1) {
      failing.count_down();
      throw input_error("the disk is full");
    }
    failing.wait();
    own.wait(receive);
    try {
      own.wait(own.receive(1, tag, in));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 2);
      said = error.what();
    }
  };
  EXPECT_EQ(error_of([&] { run_over_tcp(2, {}, work); }), "the disk is full");
  EXPECT_EQ(said, "rank 1 failed: the disk is full");
}

TEST(TcpTransport, WhatWasSentBeforeAFailureArrives) {
  run_over_tcp(2, {}, [](Transport& own) {
    const Bytes out(8, std::byte{7});
    Bytes in(8);
    if (own.rank() == 0) {
      own.wait(own.send(1, tag, out));
      own.fail(work_error("the disk is full"));
      return;
    }
    own.wait(own.receive(0, tag, in));
    EXPECT_EQ(in, out);
    EXPECT_THROW(own.wait(own.receive(0, tag, in)), exec::PeerFailed);
  });
}

TEST(TcpTransport, ARankThatHasEndedIsNamed) {
  std::string said;
  run_over_tcp(2, {}, [&](Transport& own) {
    if (own.rank() == 0) return;
    Bytes in(8);
    said = error_of([&] { own.wait(own.receive(0, tag, in)); });
  });
  EXPECT_EQ(said,
            "waits for a message from rank 0, which has ended its work: do all ranks run the same "
            "command?");
}

TEST(TcpTransport, PatienceEnds) {
  run_over_tcp(2, {}, [&](Transport& own) {
    own.set_patience(std::chrono::milliseconds(30));
    Bytes in(8);
    EXPECT_EQ(error_of([&] { own.wait(own.receive(1 - own.rank(), tag, in)); }),
              "waited 30.00 ms for a message from rank " + std::to_string(1 - own.rank()) +
                  "; --timeout allows no more");
    own.set_patience(std::chrono::seconds(60));
    exec::barrier(own);
  });
}

// ---- How ranks meet

// What each process of a start says, in their order; empty where all is well.
std::vector<std::string> said_by(const std::vector<TcpPlace>& places,
                                 std::chrono::nanoseconds patience = std::chrono::seconds(60)) {
  std::vector<std::string> said(places.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < places.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        make_tcp_transport(places[i], {}, patience);
      } catch (const Error& error) {
        said[i] = std::to_string(error.exit_status()) + " " + error.what();
      }
    });
  }
  threads.clear();
  return said;
}

TEST(TcpMeeting, AnAbsentRankIsNamed) {
  const ReservedPort port;
  const auto said =
      said_by({{0, 4, "127.0.0.1", port.number()}, {2, 4, "127.0.0.1", port.number()}},
              std::chrono::milliseconds(1000));
  const std::string both = "1 waited 1000.0 ms for ranks 1 and 3 of 4 to come to " + port.master() +
                           "; start all of them, or give a longer --timeout";
  EXPECT_EQ(said, std::vector<std::string>(2, both));
}

TEST(TcpMeeting, AnAbsentRank0IsNamed) {
  const ReservedPort port;
  const auto said = said_by({{1, 2, "127.0.0.1", port.number()}}, std::chrono::milliseconds(100));
  EXPECT_EQ(said[0], "1 waited 100.0 ms for rank 0 at " + port.master() +
                         ": Connection refused; start it, or give a longer --timeout");
}

TEST(TcpMeeting, NoTwoAreOneRank) {
  const ReservedPort port;
  const TcpPlace first{0, 3, "127.0.0.1", port.number()};
  const TcpPlace twice{1, 3, "127.0.0.1", port.number()};
  EXPECT_EQ(
      said_by({first, twice, twice}),
      std::vector<std::string>(3,
                               "2 two processes, at 127.0.0.1 and at 127.0.0.1, both came as rank "
                               "1; start each once"));
}

TEST(TcpMeeting, AllCountTheSameRanks) {
  const ReservedPort port;
  EXPECT_EQ(said_by({{0, 3, "127.0.0.1", port.number()}, {1, 4, "127.0.0.1", port.number()}}),
            std::vector<std::string>(2,
                                     "2 rank 1, at 127.0.0.1, was started as one of 4, and rank 0 "
                                     "as one of 3; give all the same number"));
}

TEST(TcpMeeting, ASecondRank0IsToldOfTheFirst) {
  const ReservedPort port;
  const TcpPlace first{0, 2, "127.0.0.1", port.number()};
  std::vector<std::string> said = said_by({first, first}, std::chrono::milliseconds(1000));
  std::ranges::sort(said);  // whichever came first
  EXPECT_TRUE(said[0].starts_with("1 waited 1000.0 ms for rank 1 of 2 to come to ")) << said[0];
  EXPECT_TRUE(said[1].starts_with("2 --master " + port.master() + ": another process listens"))
      << said[1];
}

TEST(TcpMeeting, AHostThatIsNotThereIsNamed) {
  const auto said = said_by({{1, 2, "no.such.host.invalid", 29'500}}, std::chrono::seconds(1));
  EXPECT_TRUE(said[0].starts_with(
      "2 --master no.such.host.invalid:29500: cannot find host 'no.such.host.invalid': "))
      << said[0];
}

std::string bytes_of_hello(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

// Silent ones, garbage, halves of a hello, hellos of another job: none gets in, and ranks
// meet beside them.
TEST(TcpMeeting, StrangersAreSentAway) {
  const ReservedPort port;
  const JobToken token = exec::token_of("of this job");
  std::atomic<int> met = 0;
  std::jthread first([&] {
    const auto own = make_tcp_transport({0, 2, "127.0.0.1", port.number(), token});
    exec::barrier(*own);
    ++met;
  });
  {
    const Stranger silent(port.number());
    const Stranger browser(port.number());
    browser.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n and so on, for longer than a hello");
    const Stranger half(port.number());
    half.say(bytes_of_hello({}).substr(0, 20));
    Hello late;
    late.rank = 1;
    late.ranks = 2;
    late.key = 12345;
    late.token = token;
    const Stranger other_start(port.number());
    other_start.say(bytes_of_hello(late));
    Hello without_token;  // which would contradict rank 0 in everything
    without_token.version = 77;
    without_token.rank = -5;
    const Stranger other_job(port.number());
    other_job.say(bytes_of_hello(without_token));
    { const Stranger brief(port.number()); }
    std::vector<std::unique_ptr<Stranger>> crowd;
    for (int i = 0; i < 300; ++i) crowd.push_back(std::make_unique<Stranger>(port.number()));
    const auto own = make_tcp_transport({1, 2, "127.0.0.1", port.number(), token});
    exec::barrier(*own);
    ++met;
  }
  first.join();
  EXPECT_EQ(met, 2);
}

// It is told, and neither it nor one without any keeps the right one out.
TEST(TcpMeeting, ARankOfAnotherTokenIsToldSo) {
  const ReservedPort port;
  const TcpPlace first{0, 2, "127.0.0.1", port.number(), exec::token_of("one")};
  TcpPlace second = first;
  second.rank = 1;
  {
    std::vector<std::string> said;
    std::jthread meets([&] { said = said_by({first}); });
    for (const std::string other : {"", "two", "one "}) {
      second.token = exec::token_of(other);
      EXPECT_EQ(said_by({second})[0],
                "2 a process at 127.0.0.1 came with another token than rank 0's; give all ranks of "
                "a job the same --token or PIPEEXEC_TOKEN, and each job a --master of its own");
    }
    second.token = first.token;
    EXPECT_EQ(said_by({second})[0], "");
    meets.join();
    EXPECT_EQ(said, std::vector<std::string>{""});
  }
  second.token = exec::token_of("two");
  const auto said = said_by({first, second}, std::chrono::milliseconds(1000));
  EXPECT_EQ(said[0], "1 waited 1000.0 ms for rank 1 of 2 to come to " + port.master() +
                         "; a process at 127.0.0.1 came with another --token; start all of them, "
                         "or give a longer --timeout");
}

TEST(TcpMeeting, TokensAreTheSameInEveryCharacter) {
  const JobToken token = exec::token_of(std::string(100, 'x'));
  EXPECT_TRUE(exec::same_token(token, token));
  for (std::size_t i = 0; i < token.size(); ++i) {
    JobToken other = token;
    other[i] ^= 1;
    EXPECT_FALSE(exec::same_token(token, other)) << i;
  }
}

// Where this process's sockets listen, as in /proc/net/tcp and tcp6: address in hexadecimal.
std::vector<std::string> listening() {
  std::set<std::string> own;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string to = std::filesystem::read_symlink(file, closed).string();
    if (to.starts_with("socket:[")) own.insert(to.substr(8, to.size() - 9));
  }
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      const std::vector<std::string> words = testing::words(line);
      if (words.size() > 9 && words[3] == "0A" && own.contains(words[9])) {
        found.push_back(words[1].substr(0, words[1].find(':')));
      }
    }
  }
  return found;
}

// The IPv4 addresses of this host, and another of its loopback.
std::vector<in_addr> own_addresses() {
  std::vector<in_addr> found{{htonl(INADDR_LOOPBACK + 1)}};
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    found.push_back(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr);
  }
  ::freeifaddrs(all);
  return found;
}

// Rank 0, and another while it waits for the last one: at the master's address and no other.
TEST(TcpMeeting, RanksListenAtTheMastersAddressAlone) {
  for (const in_addr& address : own_addresses()) {
    const std::string host = ::inet_ntoa(address);
    SCOPED_TRACE(host);
    const ReservedPort port;
    std::vector<std::jthread> ranks;
    const auto start = [&](int rank) {
      ranks.emplace_back([&, rank] { make_tcp_transport({rank, 3, host, port.number()}); });
    };
    start(0);
    start(1);
    std::vector<std::string> at;
    while (at.size() < 2) at = listening();
    char expected[9];
    std::snprintf(expected, sizeof expected, "%08X", address.s_addr);
    const bool loops = host.starts_with("127.");  // from which the system picks the first
    for (const std::string& one : at) {
      EXPECT_TRUE(one == expected || (loops && one == "0100007F")) << one;
    }
    start(2);
  }
}

TEST(TcpMeeting, Rank0ListensOnlyAtItsOwnHost) {
  const auto said = said_by({{0, 2, "192.0.2.1", 29'500}});  // an address that nobody has
  EXPECT_EQ(said[0],
            "2 --master 192.0.2.1:29500: rank 0 cannot listen at 192.0.2.1:29500, which is no "
            "address of this host; start rank 0 there, or give it --master 0.0.0.0:29500 to listen "
            "at all of its addresses");
}

TEST(TcpMeeting, AnotherVersionIsRefused) {
  const ReservedPort port;
  std::string said;
  std::jthread first([&] {
    said = error_of([&] { make_tcp_transport({0, 2, "127.0.0.1", port.number()}); });
  });
  Hello other;
  other.version = 0x01000000;  // as a machine of the other order of bytes says 1
  const Stranger stranger(port.number());
  stranger.say(bytes_of_hello(other));
  first.join();
  EXPECT_EQ(
      said,
      "a process at 127.0.0.1 is a pipeexec that rank 0's does not understand; start the same "
      "version on machines of one kind");
}

}  // namespace
}  // namespace pipesim
