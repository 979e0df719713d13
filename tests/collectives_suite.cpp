// The second half of the suite: collectives and agreement.
#include <fmt/format.h>

#include <new>
#include <thread>

#include "exec/run/agreement.h"
#include "exec/run/clock_sync.h"
#include "exec/transport/collectives.h"
#include "tests/transport_suite.h"
#include "traces/base/memory.h"

namespace pipesim::testing {
namespace {

using exec::AgreedError;
using exec::Bytes;
using exec::Ticket;
using exec::Transport;

Bytes filled(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value + 1)); }

class Collectives {
 public:
  explicit Collectives(Transport& transport)
      : transport_(transport), rank_(transport.rank()), ranks_(transport.ranks()) {}

  std::vector<std::string> run() {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
      gathers(size);
      broadcasts(size);
      exchanges(size);
    }
    for (int late = 0; late < ranks_; ++late) waits_for(late);
    agrees();
    return complaints_;
  }

 private:
  void expect(bool fine, const std::string& what) {
    if (!fine) complaints_.push_back(fmt::format("rank {}: {}", rank_, what));
  }

  // Rank r gives `size` bytes and r more.
  void gathers(std::size_t size) {
    const auto given = [&](int rank) {
      return filled(size + static_cast<std::size_t>(rank), rank);
    };
    std::vector<Bytes> expected;
    for (int rank = 0; rank < ranks_ && rank_ == 0; ++rank) expected.push_back(given(rank));
    expect(exec::gather(transport_, given(rank_)) == expected,
           fmt::format("gather from {} bytes", size));
  }

  void broadcasts(std::size_t size) {
    const Bytes own = filled(size + static_cast<std::size_t>(rank_), rank_);
    expect(exec::broadcast(transport_, own) == filled(size, 0),
           fmt::format("broadcast of {} bytes", size));
  }

  void exchanges(std::size_t size) {
    const int other = rank_ ^ 1;
    if (other >= ranks_) return;
    Bytes theirs(size);
    exec::exchange(transport_, other, filled(size, rank_), theirs);
    expect(theirs == filled(size, other), fmt::format("exchange of {} bytes", size));
  }

  // Whoever leaves the barrier tells the late rank, which enters only after
  // having looked out for that in vain.
  void waits_for(int late) {
    constexpr int tag = exec::first_free_tag;
    const Bytes message(1);
    if (rank_ != late) {
      exec::barrier(transport_);
      transport_.wait(transport_.send(late, tag, message));
      return;
    }
    std::vector<Bytes> left(static_cast<std::size_t>(ranks_), Bytes(1));
    std::vector<Ticket> tickets;
    for (int from = 0; from < ranks_; ++from) {
      if (from == rank_) continue;
      tickets.push_back(transport_.receive(from, tag, left[static_cast<std::size_t>(from)]));
    }
    for (int i = 0; i < 300; ++i) {
      const auto early =
          std::erase_if(tickets, [&](Ticket ticket) { return transport_.test(ticket); });
      expect(early == 0, "a barrier let others go before this rank has entered");
      std::this_thread::yield();
    }
    exec::barrier(transport_);
    for (const Ticket ticket : tickets) transport_.wait(ticket);
  }

  // What all ranks throw, by its exit status and message; "0" where they don't.
  template <typename Work>
  std::string agreed(Work work) {
    try {
      work();
    } catch (const AgreedError& error) {
      return fmt::format("{} {}", error.exit_status(), error.what());
    }
    return "0";
  }

  void expect_agreed(const std::string& got, const std::string& expected) {
    expect(got == expected, fmt::format("agreed on '{}', not on '{}'", got, expected));
  }

  void agrees() {
    int times = 0;
    expect_agreed(agreed([&] { exec::agree(transport_, [&] { ++times; }); }), "0");
    expect(times == 1, "agree() did the work not once");
    const auto named = [](int rank) { return rank == 0 ? "" : fmt::format("rank {}: ", rank); };
    for (int bad = 0; bad < ranks_; ++bad) {
      const auto all_from_here = [&] {
        if (rank_ == bad) throw work_error("the disk is full");
        if (rank_ > bad) throw input_error("no such file");
      };
      expect_agreed(agreed([&] { exec::agree(transport_, all_from_here); }),
                    fmt::format("1 {}the disk is full", named(bad)));
      const auto only_here = [&] {
        if (rank_ == bad) throw input_error("no such file");
      };
      expect_agreed(agreed([&] { exec::agree(transport_, only_here); }),
                    fmt::format("2 {}no such file", named(bad)));
      const auto too_large = [&] {
        if (rank_ == bad) throw std::bad_alloc();
      };
      expect_agreed(agreed([&] { exec::agree(transport_, too_large); }),
                    fmt::format("2 {}{}", named(bad), out_of_memory));
      const std::string colour = rank_ == bad ? "red" : "blue";
      const std::string agreement =
          agreed([&] { exec::agree_on(transport_, "the colour", colour); });
      const int first_other = bad == 0 ? 1 : bad;
      expect_agreed(agreement, ranks_ == 1 ? "0"
                                           : fmt::format("2 {}the colour differs from rank 0's; "
                                                         "start all ranks with the same command",
                                                         named(first_other)));
    }
    expect_agreed(agreed([&] { exec::agree_on(transport_, "the colour", "blue"); }), "0");
    const auto clocks = exec::find_shared_clocks(transport_, exec::Clock());
    expect(exec::all_share_one(clocks), "ranks of one host have several clocks");
    expect(std::ssize(clocks) == ranks_, "not a clock for each rank");
  }

  Transport& transport_;
  int rank_;
  int ranks_;
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> check_collectives(Transport& transport) {
  return Collectives(transport).run();
}

}  // namespace pipesim::testing
