#include "tests/transport_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>

#include "exec/transport/collectives.h"
#include "tests/devices.h"
#include "tests/errors.h"

namespace pipesim::testing {
namespace {

using exec::Bytes;
using exec::Ticket;
using exec::Transport;

constexpr int tag_a = exec::first_free_tag;
constexpr int tag_b = tag_a + 1;
constexpr int tag_c = tag_a + 2;

const std::vector<std::size_t> sizes{0, 1, 4095, 4096, 4097, std::size_t{1} << 20};

// Bytes that tell message, place and size apart.
Bytes content(std::size_t size, std::size_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((seed * 37 + i * 7 + (i >> 8U) + size) & 0xffU);
  }
  return bytes;
}

// Most checks send to the next rank of a ring and receive from the one before:
// with one rank that is itself, with two they meet head to head. Nothing is
// awaited before what it needs has started everywhere.
class Suite {
 public:
  Suite(Transport& transport, const Promises& promises)
      : transport_(transport),
        promises_(promises),
        rank_(transport.rank()),
        ranks_(transport.ranks()),
        next_((rank_ + 1) % ranks_),
        previous_((rank_ + ranks_ - 1) % ranks_) {}

  std::vector<std::string> run() {
    perform("order within a tag", [&] { order_within_a_tag(); });
    perform("independent tags", [&] { independent_tags(); });
    for (const bool pairs : {false, true}) {
      for (const bool receives_first : {false, true}) {
        for (const bool apart : {false, true}) {
          perform(fmt::format("sizes, pairs {}, receives first {}, apart {}", pairs, receives_first,
                              apart),
                  [&] { every_size(pairs, receives_first, apart); });
        }
      }
    }
    perform("many tickets", [&] { many_tickets(); });
    perform("tickets anew", [&] { tickets_anew(); });
    perform("wrong sizes", [&] { wrong_sizes(); });
    perform("bytes of sends", [&] { bytes_of_sends(); });
    perform("sends that wait", [&] { sends_that_wait(); });
    perform("sends that don't", [&] { sends_that_do_not_wait(); });
    perform("abandoned receives", [&] { abandoned_receives(); });
    perform("all to all", [&] { all_to_all(); });
    for (unsigned seed = 1; seed <= 5; ++seed) {
      perform(fmt::format("random traffic {}", seed), [&] { random_traffic(seed); });
    }
    return complaints_;
  }

 private:
  template <typename Check>
  void perform(const std::string& name, Check check) {
    check_ = name;
    check();
    barrier(transport_);
  }

  void expect(bool fine, const std::string& what) {
    if (!fine) complaints_.push_back(fmt::format("{}, rank {}: {}", check_, rank_, what));
  }

  void expect_content(const Bytes& bytes, std::size_t seed, const std::string& what) {
    expect(bytes == content(bytes.size(), seed), what + " came with other bytes");
  }

  // Sees for a while that a ticket is not done.
  bool is_done_soon(Ticket ticket) {
    for (int i = 0; i < 200; ++i) {
      if (transport_.test(ticket)) return true;
      std::this_thread::yield();
    }
    return false;
  }

  // In random order, by test() and by wait().
  void finish_in_any_order(std::vector<Ticket> tickets, unsigned seed) {
    std::mt19937 random(seed);
    while (!tickets.empty()) {
      std::swap(tickets[random() % tickets.size()], tickets.back());
      if (random() % 4 == 0) {
        transport_.wait(tickets.back());
      } else if (!transport_.test(tickets.back())) {
        continue;
      }
      tickets.pop_back();
    }
  }

  void order_within_a_tag() {
    constexpr std::size_t count = 60;
    const std::size_t lengths[] = {8, 5000, 70'000};
    std::vector<Bytes> out;
    std::vector<Bytes> in;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(content(lengths[i % 3], i));
      in.emplace_back(out.back().size());
    }
    std::vector<Ticket> receives;
    std::vector<Ticket> sends;
    const auto post = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        receives.push_back(transport_.receive(previous_, tag_a, in[i]));
      }
    };
    post(0, count / 2);
    for (const Bytes& bytes : out) sends.push_back(transport_.send(next_, tag_a, bytes));
    post(count / 2, count);
    for (std::size_t i = count; i-- > 0;) {
      transport_.wait(receives[i]);
      expect_content(in[i], i, fmt::format("message {}", i));
    }
    for (const Ticket send : sends) transport_.wait(send);
  }

  // What A waits for starts only once B has arrived everywhere it matters.
  void independent_tags() {
    Bytes a(100);
    Bytes b(100);
    const Bytes out_a = content(a.size(), 1);
    const Bytes out_b = content(b.size(), 2);
    const Ticket receive_a = transport_.receive(previous_, tag_a, a);
    const Ticket receive_b = transport_.receive(previous_, tag_b, b);
    const Ticket send_b = transport_.send(next_, tag_b, out_b);
    transport_.wait(receive_b);
    expect_content(b, 2, "tag B");
    const bool early = transport_.test(receive_a);
    expect(!early, "tag A is done before it was sent");
    transport_.wait(send_b);
    Bytes go(1);
    const Bytes own_go(1);
    const Ticket receive_go = transport_.receive(next_, tag_c, go);
    const Ticket send_go = transport_.send(previous_, tag_c, own_go);
    transport_.wait(receive_go);
    transport_.wait(send_go);
    const Ticket send_a = transport_.send(next_, tag_a, out_a);
    if (!early) transport_.wait(receive_a);
    expect_content(a, 1, "tag A");
    transport_.wait(send_a);
  }

  // Between neighbours in the ring or in pairs; `apart`, all ranks have begun
  // the one half before any begins the other.
  void every_size(bool pairs, bool receives_first, bool apart) {
    const int other = (rank_ ^ 1) < ranks_ ? rank_ ^ 1 : rank_;
    const int to = pairs ? other : next_;
    const int from = pairs ? other : previous_;
    std::vector<Bytes> out;
    std::vector<Bytes> in;
    for (const std::size_t size : sizes) {
      out.push_back(content(size, static_cast<std::size_t>(rank_)));
      in.emplace_back(size);
    }
    std::vector<Ticket> tickets;
    const auto start = [&](bool receives) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        tickets.push_back(receives ? transport_.receive(from, tag_a, in[i])
                                   : transport_.send(to, tag_a, out[i]));
      }
    };
    start(receives_first);
    if (apart) barrier(transport_);
    start(!receives_first);
    for (const Ticket ticket : tickets) transport_.wait(ticket);
    for (const Bytes& bytes : in) {
      expect_content(bytes, static_cast<std::size_t>(from), fmt::format("{} bytes", bytes.size()));
    }
  }

  void many_tickets() {
    constexpr std::size_t count = 5000;
    std::vector<Bytes> out;
    std::vector<Bytes> in;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(content(i % 50, i));
      in.emplace_back(i % 50);
    }
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < count; ++i) {
      const int tag = tag_a + static_cast<int>(i % 7);
      tickets.push_back(transport_.receive(previous_, tag, in[i]));
      tickets.push_back(transport_.send(next_, tag, out[i]));
    }
    largest_ticket_ = std::ranges::max(tickets);
    std::ranges::sort(tickets);
    expect(std::ranges::adjacent_find(tickets) == tickets.end(), "a ticket was given twice");
    finish_in_any_order(tickets, static_cast<unsigned>(rank_));
    for (std::size_t i = 0; i < count; ++i) expect_content(in[i], i, fmt::format("message {}", i));
  }

  // After many_tickets(): those that have ended serve again.
  void tickets_anew() {
    for (std::size_t i = 0; i < 200; ++i) {
      const Bytes out = content(4, i);
      Bytes in(4);
      const Ticket receive = transport_.receive(previous_, tag_a, in);
      const Ticket send = transport_.send(next_, tag_a, out);
      expect(std::max(receive, send) <= largest_ticket_, "tickets that ended don't serve again");
      transport_.wait(receive);
      transport_.wait(send);
      expect_content(in, i, fmt::format("message {}", i));
    }
  }

  void wrong_sizes() {
    const std::pair<std::size_t, std::size_t> cases[] = {
        {3000, 1000}, {1000, 3000}, {300'000, 100'000}, {100'000, 300'000}, {0, 5}, {5, 0}};
    bool by_test = false;
    for (const auto& [sent, expected] : cases) {
      if (sent > expected && sent > promises_.largest_misfit) continue;
      by_test = !by_test;
      const Bytes out(sent);
      Bytes in(expected);
      const Ticket receive = transport_.receive(previous_, tag_a, in);
      transport_.wait(transport_.send(next_, tag_a, out));
      const std::string error = error_of([&, tests = by_test] {
        if (!tests) return transport_.wait(receive);
        while (!transport_.test(receive)) std::this_thread::yield();
      });
      const std::string right =
          fmt::format("a message of {} bytes came from rank {} where {} were expected", sent,
                      previous_, expected);
      expect(error.starts_with(right), fmt::format("'{}', not '{}'", error, right));
      barrier(transport_);
    }
  }

  // They stay as they are until the send is done, and may change after that.
  void bytes_of_sends() {
    for (const std::size_t size : sizes) {
      Bytes out = content(size, 3);
      const Ticket send = transport_.send(next_, tag_a, out);
      expect_content(out, 3, "what is being sent");
      const bool done = is_done_soon(send);
      if (done) std::ranges::fill(out, std::byte{0xee});
      barrier(transport_);
      Bytes in(size);
      transport_.wait(transport_.receive(previous_, tag_a, in));
      expect_content(in, 3, fmt::format("{} bytes", size));
      if (!done) {
        expect_content(out, 3, "what is being sent");
        transport_.wait(send);
      }
    }
  }

  void sends_that_wait() {
    if (!promises_.waits_from) return;
    const auto least = static_cast<std::size_t>(*promises_.waits_from);
    for (const std::size_t size : {least, least + 1, least + 100'000}) {
      const Bytes out = content(size, 4);
      const Ticket send = transport_.send(next_, tag_a, out);
      bool early = is_done_soon(send);
      barrier(transport_);
      early = early || is_done_soon(send);
      expect(!early, fmt::format("a send of {} bytes is done before its receive", size));
      barrier(transport_);  // no receive is there until everyone has looked
      Bytes in(size);
      transport_.wait(transport_.receive(previous_, tag_a, in));
      expect_content(in, 4, fmt::format("{} bytes", size));
      if (!early) transport_.wait(send);
    }
  }

  void sends_that_do_not_wait() {
    if (!promises_.done_below || *promises_.done_below == 0) return;
    const auto most = static_cast<std::size_t>(*promises_.done_below) - 1;
    for (const std::size_t size : {std::size_t{0}, most / 2, most}) {
      const Bytes out = content(size, 5);
      transport_.wait(transport_.send(next_, tag_a, out));
      barrier(transport_);
      Bytes in(size);
      transport_.wait(transport_.receive(previous_, tag_a, in));
      expect_content(in, 5, fmt::format("{} bytes", size));
    }
  }

  void abandoned_receives() {
    for (const std::size_t size : {std::size_t{8}, std::size_t{100'000}}) {
      Bytes given_up(size);
      transport_.receive(previous_, tag_a, given_up);
      transport_.abandon();
      barrier(transport_);
      const Bytes out = content(size, 6);
      Bytes in(size);
      const Ticket send = transport_.send(next_, tag_a, out);
      transport_.wait(transport_.receive(previous_, tag_a, in));
      transport_.wait(send);
      expect_content(in, 6, fmt::format("{} bytes", size));
      expect(given_up == Bytes(size), "an abandoned receive was filled");
    }
  }

  void all_to_all() {
    constexpr std::size_t size = 20'000;
    const Bytes out = content(size, static_cast<std::size_t>(rank_));
    std::vector<Bytes> in(static_cast<std::size_t>(ranks_), Bytes(size));
    std::vector<Ticket> tickets;
    for (int i = 0; i < ranks_; ++i) {
      const int to = (rank_ + i) % ranks_;
      tickets.push_back(transport_.send(to, tag_a, out));
      tickets.push_back(transport_.receive(to, tag_a, in[static_cast<std::size_t>(to)]));
    }
    finish_in_any_order(tickets, 1);
    for (std::size_t from = 0; from < in.size(); ++from) {
      expect_content(in[from], from, fmt::format("the message of rank {}", from));
    }
  }

  // All ranks draw the same plan; each starts its sends and its receives in the
  // order of the plan, but mixes the two as it likes.
  void random_traffic(unsigned seed) {
    struct Message {
      int from, to, tag;
      std::size_t seed;
      Bytes bytes;
    };
    std::mt19937 plan(seed);
    const std::size_t lengths[] = {0, 1, 100, 4096, 5000, 40'000};
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (std::size_t i = 0; i < 400; ++i) {
      const auto draw = [&](int below) {
        return static_cast<int>(plan() % static_cast<unsigned>(below));
      };
      const int from = draw(ranks_);
      const int to = draw(ranks_);
      const int tag = tag_a + draw(3);
      const std::size_t size = lengths[draw(6)];
      if (from == rank_) sends.push_back({from, to, tag, i, content(size, i)});
      if (to == rank_) receives.push_back({from, to, tag, i, Bytes(size)});
    }
    std::mt19937 own(seed * 100 + static_cast<unsigned>(rank_));
    std::vector<Ticket> tickets;
    for (std::size_t sent = 0, posted = 0; sent < sends.size() || posted < receives.size();) {
      const auto choice = own() % 3;
      if (choice == 0 && sent < sends.size()) {
        const Message& message = sends[sent++];
        tickets.push_back(transport_.send(message.to, message.tag, message.bytes));
      } else if (choice == 1 && posted < receives.size()) {
        Message& message = receives[posted++];
        tickets.push_back(transport_.receive(message.from, message.tag, message.bytes));
      } else if (!tickets.empty()) {
        std::swap(tickets[own() % tickets.size()], tickets.back());
        if (transport_.test(tickets.back())) tickets.pop_back();
      }
    }
    finish_in_any_order(tickets, seed);
    for (const Message& message : receives) {
      expect_content(message.bytes, message.seed, fmt::format("message {}", message.seed));
    }
  }

  Transport& transport_;
  Promises promises_;
  int rank_;
  int ranks_;
  int next_;
  int previous_;
  std::string check_;
  Ticket largest_ticket_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> check_messages(Transport& transport, const Promises& promises) {
  return Suite(transport, promises).run();
}

std::vector<std::string> check_transport(Transport& transport, const Promises& promises) {
  std::vector<std::string> complaints = check_messages(transport, promises);
  for (std::string& more : check_collectives(transport)) complaints.push_back(std::move(more));
  const auto device = make_test_device();
  for (std::string& more : check_exchanges(transport, *device)) complaints.push_back(more);
  return complaints;
}

}  // namespace pipesim::testing
