#include "exec/transport/local.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <tuple>

namespace pipesim::exec {
namespace {

// One end of a message that waits for the other.
struct End {
  int rank = 0;
  Ticket ticket = 0;
  std::span<const std::byte> out;  // of a send: its own bytes, or the copy
  std::span<std::byte> in;         // of a receive
  std::vector<std::byte> copy;     // of an eager send
};

using Route = std::tuple<int, int, int>;  // from, to, tag

class LocalTransport;

}  // namespace

// One mutex guards everything: a message is a copy within memory, and ranks communicate far less
// than they compute.
struct LocalWorld::State {
  // The state of a ticket.
  struct Progress {
    bool done = false;
    std::optional<Error> error;
  };
  struct Rank {
    std::condition_variable changed;
    std::vector<Progress> tickets;
    std::vector<Ticket> free;  // tickets that have ended
    std::unique_ptr<Transport> transport;
  };

  std::mutex mutex;
  std::optional<std::int64_t> eager_limit_bytes;
  std::vector<Rank> ranks;
  std::map<Route, std::list<End>> sends;     // without a receive so far
  std::map<Route, std::list<End>> receives;  // without a send so far
  std::optional<Error> failure;              // the first

  explicit State(int count) : ranks(static_cast<std::size_t>(count)) {}

  Rank& of(int rank) { return ranks[static_cast<std::size_t>(rank)]; }

  Ticket open(int rank) {
    Rank& own = of(rank);
    if (own.free.empty()) {
      own.tickets.emplace_back();
      return own.tickets.size() - 1;
    }
    const Ticket ticket = own.free.back();
    own.free.pop_back();
    own.tickets[ticket] = {};
    return ticket;
  }

  void finish(int rank, Ticket ticket) {
    of(rank).tickets[ticket].done = true;
    of(rank).changed.notify_one();
  }

  // Copies of eager sends are kept: they don't need the rank any more.
  void abandon(int rank) {
    for (auto* waiting : {&sends, &receives}) {
      for (auto& [route, ends] : *waiting) {
        ends.remove_if([&](const End& end) { return end.rank == rank && end.copy.empty(); });
      }
      std::erase_if(*waiting, [](const auto& route) { return route.second.empty(); });
    }
    of(rank).tickets.clear();
    of(rank).free.clear();
  }

  // Moves the bytes of a matched pair; an eager send has long been done.
  void deliver(const End& send, const End& receive) {
    if (send.out.size() != receive.in.size()) {
      of(receive.rank).tickets[receive.ticket].error =
          wrong_size(send.out.size(), send.rank, receive.in.size());
    } else if (!send.out.empty()) {
      std::memcpy(receive.in.data(), send.out.data(), send.out.size());
    }
    finish(receive.rank, receive.ticket);
    if (send.copy.empty()) finish(send.rank, send.ticket);
  }
};

namespace {

// The first end that waits on a route, if any.
std::optional<End> take_first(std::map<Route, std::list<End>>& waiting, const Route& route) {
  const auto found = waiting.find(route);
  if (found == waiting.end()) return std::nullopt;
  End first = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) waiting.erase(found);
  return first;
}

class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalWorld::State& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(world_.ranks.size()); }
  std::string name() const override { return "local"; }

  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(world_.mutex);
    const Route route{rank_, to, tag};
    End end{rank_, world_.open(rank_), bytes, {}, {}};
    if (const auto receive = take_first(world_.receives, route)) {
      world_.deliver(end, *receive);
      return end.ticket;
    }
    const auto& limit = world_.eager_limit_bytes;
    if (!limit || static_cast<std::int64_t>(bytes.size()) < *limit) {
      end.copy.assign(bytes.begin(), bytes.end());
      end.copy.push_back({});  // to distinguish an empty eager send
      end.out = std::span(end.copy).first(bytes.size());
      world_.finish(rank_, end.ticket);
    }
    const Ticket ticket = end.ticket;
    world_.sends[route].push_back(std::move(end));
    return ticket;
  }

  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    const std::lock_guard lock(world_.mutex);
    const Route route{from, rank_, tag};
    End end{rank_, world_.open(rank_), {}, bytes, {}};
    const Ticket ticket = end.ticket;
    if (const auto send = take_first(world_.sends, route)) {
      world_.deliver(*send, end);
    } else {
      world_.receives[route].push_back(std::move(end));
    }
    return ticket;
  }

  bool test(Ticket ticket) override {
    const std::lock_guard lock(world_.mutex);
    return take_if_done(ticket);
  }

  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override {
    std::unique_lock lock(world_.mutex);
    auto done = tickets.end();
    const auto is_done = [&] {
      done = std::ranges::find_if(tickets, [&](Ticket ticket) { return take_if_done(ticket); });
      return done != tickets.end();
    };
    std::condition_variable& changed = world_.of(rank_).changed;
    if (until == Time::max()) {
      changed.wait(lock, is_done);
    } else {
      changed.wait_until(lock, until, is_done);
    }
    return static_cast<std::size_t>(done - tickets.begin());
  }

  std::string awaited(Ticket ticket) const override {
    const std::lock_guard lock(world_.mutex);
    const auto holds = [&](const End& end) { return end.rank == rank_ && end.ticket == ticket; };
    for (const auto& [route, ends] : world_.receives) {
      if (std::ranges::any_of(ends, holds)) return a_message_from(std::get<0>(route));
    }
    for (const auto& [route, ends] : world_.sends) {
      if (std::ranges::any_of(ends, holds)) return a_taker_at(std::get<1>(route));
    }
    return Transport::awaited(ticket);
  }

  void abandon() override {
    const std::lock_guard lock(world_.mutex);
    world_.abandon(rank_);
  }

  void fail(const Error& why) override {
    const std::lock_guard lock(world_.mutex);
    if (!world_.failure) world_.failure = why;
    for (auto& rank : world_.ranks) rank.changed.notify_one();
  }

 private:
  bool take_if_done(Ticket ticket) {
    auto& own = world_.of(rank_);
    const LocalWorld::State::Progress progress = own.tickets[ticket];
    if (!progress.done && !world_.failure) return false;
    if (!progress.done || progress.error) world_.abandon(rank_);
    if (!progress.done) throw PeerFailed(*world_.failure);
    if (progress.error) throw *progress.error;
    own.free.push_back(ticket);
    return true;
  }

  LocalWorld::State& world_;
  int rank_;
};

}  // namespace

LocalWorld::LocalWorld(int ranks, std::optional<std::int64_t> eager_limit_bytes)
    : state_(std::make_unique<State>(ranks)) {
  state_->eager_limit_bytes = eager_limit_bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    state_->of(rank).transport = std::make_unique<LocalTransport>(*state_, rank);
  }
}

LocalWorld::~LocalWorld() = default;

Transport& LocalWorld::transport(int rank) { return *state_->of(rank).transport; }

}  // namespace pipesim::exec
