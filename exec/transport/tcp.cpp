#include "exec/transport/tcp.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio.hpp>
#include <cerrno>
#include <functional>
#include <list>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/transport/back_off.h"
#include "exec/transport/hello.h"
#include "exec/transport/stream_messages.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

using asio::ip::tcp;
using TcpClock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t max_strangers = 256;  // that have sent nothing so far
constexpr std::size_t own_large_from = std::size_t{1} << 16;

RankAddress address_of(const asio::ip::address& host, std::uint32_t port) {
  if (host.is_v6()) return {host.to_v6().to_bytes(), port};
  return {asio::ip::make_address_v6(asio::ip::v4_mapped, host.to_v4()).to_bytes(), port};
}

asio::ip::address unmapped(const asio::ip::address& host) {
  if (!host.is_v6() || !host.to_v6().is_v4_mapped()) return host;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, host.to_v6());
}

tcp::endpoint endpoint_of(const RankAddress& address) {
  return {unmapped(asio::ip::address_v6(address.host)), static_cast<std::uint16_t>(address.port)};
}

std::string in_words(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                    : fmt::format("{}:{}", host, endpoint.port());
}

std::string place_of(const tcp::socket& socket) {
  std::error_code error;
  const tcp::endpoint other = socket.remote_endpoint(error);
  return error ? "a lost connection" : unmapped(other.address()).to_string();
}

// Runs started operations until they are done, or until the deadline.
class Steps {
 public:
  Steps(asio::io_context& context, TcpClock::time_point until) : context_(context), until_(until) {}

  template <typename Done>
  bool run_while(const Done& goes_on) {
    while (goes_on()) {
      if (until_ == TcpClock::time_point::max()) {
        context_.run_one();
      } else if (context_.run_one_until(until_) == 0 && TcpClock::now() >= until_) {
        return false;
      }
    }
    return true;
  }

  // Runs one operation, which `start` starts with its handler, and returns its error; on a timeout
  // `socket` is closed.
  template <typename Start>
  std::error_code finish(tcp::socket& socket, const Start& start) {
    std::optional<std::error_code> result;
    start([&](const std::error_code& error, auto&&...) { result = error; });
    if (run_while([&] { return !result; })) return *result;
    std::error_code ignored;
    socket.close(ignored);
    while (!result) context_.run_one();
    return asio::error::timed_out;
  }

  void pause(milliseconds time) {
    asio::steady_timer timer(context_, std::min(TcpClock::now() + time, until_));
    bool over = false;
    timer.async_wait([&](const std::error_code&) { over = true; });
    while (!over) context_.run_one();
  }

  bool are_over() const { return TcpClock::now() >= until_; }

 private:
  asio::io_context& context_;
  TcpClock::time_point until_;
};

void prepare(tcp::socket& socket) {
  std::error_code gone;  // reading will report it
  socket.set_option(tcp::no_delay(true), gone);
  socket.set_option(asio::socket_base::keep_alive(true), gone);
  // A dead host is detected within half a minute on an idle connection.
  const auto set = [&](int option, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 4);
  socket.non_blocking(true, gone);
}

// Listens for ranks, reads their hellos, and keeps accepted connections.
class Reception {
 public:
  // Decides whether a connection is accepted; an error is sent to all.
  using Judge = std::function<bool(const Hello& hello, const tcp::socket& socket)>;

  Reception(asio::io_context& context, tcp::acceptor acceptor, const TcpPlace& place)
      : context_(context),
        acceptor_(std::move(acceptor)),
        token_(place.token),
        sockets_(static_cast<std::size_t>(place.ranks)),
        hellos_(static_cast<std::size_t>(place.ranks)) {}

  tcp::endpoint at() const { return acceptor_.local_endpoint(); }
  // Where the last one came from that had another token; or empty.
  const std::string& turned_away() const { return turned_away_; }

  // Returns true once `count` more ranks are accepted, false if time is over.
  bool let_in(int count, const Judge& judge, Steps& steps) {
    judge_ = &judge;
    wanted_ = count;
    if (wanted_ > 0) accept();
    const bool all = steps.run_while([&] { return wanted_ > 0 && !error_; });
    std::error_code ignored;
    acceptor_.cancel(ignored);
    for (Guest& guest : guests_) guest.socket.close(ignored);
    while (handlers_ > 0) context_.run_one();
    if (error_) throw *error_;
    return all;
  }

  std::optional<tcp::socket>& socket(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }
  const Hello& hello(int rank) const { return hellos_[static_cast<std::size_t>(rank)]; }
  // Visits those that connected before an error, including its cause.
  template <typename Visit>
  void for_each(const Visit& visit) {
    for (auto& socket : sockets_) {
      if (socket) visit(*socket);
    }
    for (tcp::socket& socket : refused_) visit(socket);
  }

 private:
  struct Guest {
    tcp::socket socket;
    Hello hello;
  };

  void accept() {
    ++handlers_;
    acceptor_.async_accept([this](const std::error_code& error, tcp::socket socket) {
      --handlers_;
      if (wanted_ == 0 || error_ || error == asio::error::operation_aborted) return;
      if (!error) {
        hear(std::move(socket));
      } else if (!guests_.empty()) {  // too many are open
        std::error_code ignored;
        guests_.front().socket.close(ignored);
      }
      accept();
    });
  }

  void hear(tcp::socket socket) {
    std::error_code ignored;
    // Silent connections must not keep ranks out.
    if (guests_.size() >= max_strangers + sockets_.size()) guests_.front().socket.close(ignored);
    const auto guest = guests_.insert(guests_.end(), {std::move(socket), {}});
    ++handlers_;
    asio::async_read(guest->socket, asio::buffer(&guest->hello, sizeof(Hello)),
                     [this, guest](const std::error_code& error, std::size_t) {
                       --handlers_;
                       if (!error && wanted_ > 0 && !error_) judge(*guest);
                       guests_.erase(guest);
                     });
  }

  void judge(Guest& guest) {
    if (guest.hello.word != hello_word) return;
    if (!same_token(guest.hello.token, token_)) return turn_away(guest.socket);
    try {
      if (!(*judge_)(guest.hello, guest.socket)) return;
    } catch (const Error& error) {
      error_ = error;
      refused_.push_back(std::move(guest.socket));
      return;
    }
    const int rank = guest.hello.rank;
    hellos_[static_cast<std::size_t>(rank)] = guest.hello;
    socket(rank) = std::move(guest.socket);
    --wanted_;
  }

  // Only that one, without waiting for it: it may be a stranger, or another job's.
  void turn_away(tcp::socket& socket) {
    turned_away_ = place_of(socket);
    const std::string why = fmt::format(
        "a process at {} came with another token than rank 0's; give all ranks of a job the same "
        "--token or PIPEEXEC_TOKEN, and each job a --master of its own",
        turned_away_);
    HelloAnswer answer;
    answer.kind = HelloAnswer::Kind::contradiction;
    answer.size = static_cast<std::uint32_t>(why.size());
    std::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(std::array{asio::const_buffer(&answer, sizeof answer),
                                 asio::const_buffer(asio::buffer(why))},
                      ignored);
  }

  asio::io_context& context_;
  tcp::acceptor acceptor_;
  JobToken token_;
  std::string turned_away_;
  std::vector<std::optional<tcp::socket>> sockets_;
  std::vector<Hello> hellos_;
  std::list<Guest> guests_;
  std::vector<tcp::socket> refused_;
  const Judge* judge_ = nullptr;
  int wanted_ = 0;
  int handlers_ = 0;  // pending handlers of this object
  std::optional<Error> error_;
};

// Connects all ranks, each pair with its own connection.
class Meeting {
 public:
  Meeting(asio::io_context& context, const TcpPlace& place, std::chrono::nanoseconds patience)
      : context_(context), place_(place), patience_(patience) {}

  // A connection to each other rank, by rank.
  std::vector<std::optional<tcp::socket>> hold() {
    if (place_.ranks == 1) return std::vector<std::optional<tcp::socket>>(1);
    return place_.rank == 0 ? hold_as_first() : come();
  }

 private:
  TcpClock::time_point after(std::chrono::nanoseconds more = {}) const {
    if (patience_.count() == 0) return TcpClock::time_point::max();
    return start_ + patience_ + more;
  }
  std::string master() const { return fmt::format("{}:{}", place_.host, place_.port); }
  std::string waited() const { return fmt::format("waited {}", format_time(patience_.count())); }

  std::vector<tcp::endpoint> resolve_master() {
    tcp::resolver resolver(context_);
    std::error_code error;
    const auto found = resolver.resolve(place_.host, std::to_string(place_.port), error);
    if (error) {
      throw input_error(fmt::format("--master {}: cannot find host {}: {}", master(),
                                    quote(place_.host), error.message()));
    }
    std::vector<tcp::endpoint> endpoints;
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
    return endpoints;
  }

  static std::error_code listen(tcp::acceptor& acceptor, const tcp::endpoint& at) {
    std::error_code error;
    const auto well = [&] { return !error; };
    acceptor.open(at.protocol(), error);
    if (well()) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (well() && at.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
    if (well()) acceptor.bind(at, error);
    if (well()) acceptor.listen(asio::socket_base::max_listen_connections, error);
    std::error_code ignored;
    if (error) acceptor.close(ignored);
    return error;
  }

  // Listens at the first of these that is an address of this host.
  tcp::acceptor listen(const std::vector<tcp::endpoint>& at) {
    tcp::acceptor acceptor(context_);
    const std::uint16_t port = at.front().port();
    std::error_code error;
    for (const tcp::endpoint& one : at) {
      error = listen(acceptor, one);
      if (!error) return acceptor;
      if (error.value() != EADDRNOTAVAIL) break;
    }
    if (error.value() == EADDRNOTAVAIL) {
      throw input_error(
          fmt::format("--master {}: rank {} cannot listen at {}, which is no address of this host; "
                      "start rank 0 there, or give it --master 0.0.0.0:{} to listen at all of its "
                      "addresses",
                      master(), place_.rank, in_words(at.front()), port));
    }
    if (error == asio::error::address_in_use) {
      throw input_error(fmt::format(
          "--master {}: another process listens at port {}: is there a second rank 0, or another "
          "run? Give each run a port of its own",
          master(), port));
    }
    throw input_error(
        fmt::format("--master {}: rank {} cannot listen at port {}: {}; give another port",
                    master(), place_.rank, port, error.message()));
  }

  // As rank 0: all others connect here.
  std::vector<std::optional<tcp::socket>> hold_as_first() {
    Reception reception(context_, listen(resolve_master()), place_);
    Steps steps(context_, after());
    const Reception::Judge judge = [&](const Hello& hello, const tcp::socket& socket) {
      if (hello.key != 0) return false;  // a late rank of another job
      const bool known = hello.rank > 0 && hello.rank < place_.ranks;
      const auto* first = known ? &reception.socket(hello.rank) : nullptr;
      check_hello(hello, place_.ranks, place_of(socket),
                  first != nullptr && *first ? place_of(**first) : "");
      return true;
    };
    try {
      if (!reception.let_in(place_.ranks - 1, judge, steps)) {
        std::vector<int> absent;
        for (int rank = 1; rank < place_.ranks; ++rank) {
          if (!reception.socket(rank)) absent.push_back(rank);
        }
        throw work_error(fmt::format(
            "{} for {} of {} to come to {}{}; start all of them, or give a longer --timeout",
            waited(), named_ranks(absent), place_.ranks, master(), why_absent(reception)));
      }
    } catch (const Error& error) {
      refuse(reception, error);
      throw;
    }
    std::random_device random;
    HelloAnswer answer;
    while (answer.key == 0) answer.key = (std::uint64_t{random()} << 32U) | random();
    std::vector<RankAddress> table(1);
    for (int rank = 1; rank < place_.ranks; ++rank) {
      const tcp::socket& socket = *reception.socket(rank);
      std::error_code gone;  // its next use will report it
      const auto other = socket.remote_endpoint(gone);
      table.push_back(address_of(unmapped(other.address()), reception.hello(rank).port));
    }
    answer.size = static_cast<std::uint32_t>(table.size() * sizeof(RankAddress));
    std::vector<std::optional<tcp::socket>> sockets(static_cast<std::size_t>(place_.ranks));
    for (int rank = 1; rank < place_.ranks; ++rank) {
      tcp::socket& socket = *reception.socket(rank);
      const std::error_code error =
          say(steps, socket, answer, asio::buffer(table.data(), answer.size));
      if (error) throw lost(rank, error);
      sockets[static_cast<std::size_t>(rank)] = std::move(socket);
    }
    return sockets;
  }

  // What may have kept ranks away.
  std::string why_absent(const Reception& reception) const {
    if (!reception.turned_away().empty()) {
      return fmt::format("; a process at {} came with another --token", reception.turned_away());
    }
    std::error_code is_name;
    asio::ip::make_address(place_.host, is_name);
    const auto at = reception.at().address();
    if (!is_name || place_.host == "localhost" || !at.is_loopback()) return {};
    return fmt::format(", which is {} here, where no other host reaches it", at.to_string());
  }

  std::error_code say(Steps& steps, tcp::socket& socket, const HelloAnswer& answer,
                      const asio::const_buffer& more) {
    const std::array<asio::const_buffer, 2> all{asio::buffer(&answer, sizeof answer), more};
    return steps.finish(socket,
                        [&](auto handler) { asio::async_write(socket, all, std::move(handler)); });
  }

  void refuse(Reception& reception, const Error& error) {
    const std::string why = std::string(error.what()).substr(0, longest_refusal);
    HelloAnswer answer;
    answer.kind = error.cause() == Error::Cause::input ? HelloAnswer::Kind::contradiction
                                                       : HelloAnswer::Kind::absence;
    answer.size = static_cast<std::uint32_t>(why.size());
    Steps steps(context_, TcpClock::now() + seconds(1));
    reception.for_each([&](tcp::socket& socket) { say(steps, socket, answer, asio::buffer(why)); });
  }

  static Error lost(int rank, const std::error_code& error) {
    return work_error(fmt::format("lost rank {} while ranks met: {}", rank, error.message()));
  }

  // As any other rank: connects to rank 0, and then to the ranks below it.
  std::vector<std::optional<tcp::socket>> come() {
    Steps steps(context_, after());
    tcp::socket first = reach_master(steps);
    Reception reception(context_, listen({{first.local_endpoint().address(), 0}}), place_);
    Hello hello;
    hello.token = place_.token;
    hello.rank = place_.rank;
    hello.ranks = place_.ranks;
    hello.port = reception.at().port();
    // Waits longer for rank 0, which knows which ranks are missing once its time is over.
    Steps longer(context_, after(seconds(1)));
    std::vector<RankAddress> table(static_cast<std::size_t>(place_.ranks));
    hello.key = ask_first(longer, first, hello, table);
    std::vector<std::optional<tcp::socket>> sockets(table.size());
    sockets[0] = std::move(first);
    for (int rank = 1; rank < place_.rank; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      sockets[at] = reach(rank, endpoint_of(table[at]), hello, longer);
    }
    const Reception::Judge judge = [&](const Hello& other, const tcp::socket&) {
      return other.key == hello.key && other.rank > place_.rank && other.rank < place_.ranks &&
             !reception.socket(other.rank);
    };
    const bool all = reception.let_in(place_.ranks - 1 - place_.rank, judge, longer);
    std::vector<int> absent;
    for (int rank = place_.rank + 1; rank < place_.ranks; ++rank) {
      auto& socket = reception.socket(rank);
      if (!socket) absent.push_back(rank);
      if (socket) sockets[static_cast<std::size_t>(rank)] = std::move(*socket);
    }
    if (!all) {
      throw work_error(
          fmt::format("{} for a connection from {}; can its host reach port {} of this one?",
                      waited(), named_ranks(absent), reception.at().port()));
    }
    return sockets;
  }

  // Tries until rank 0 listens.
  tcp::socket reach_master(Steps& steps) {
    const std::vector<tcp::endpoint> endpoints = resolve_master();
    std::error_code last = asio::error::timed_out;
    for (;;) {
      for (const tcp::endpoint& endpoint : endpoints) {
        tcp::socket socket(context_);
        std::error_code error = steps.finish(
            socket, [&](auto handler) { socket.async_connect(endpoint, std::move(handler)); });
        // A connection to a port without listener may connect to itself.
        if (!error && socket.local_endpoint() == socket.remote_endpoint()) {
          error = asio::error::connection_refused;
        }
        if (!error) return socket;
        if (error != asio::error::timed_out) last = error;
      }
      if (steps.are_over()) break;
      steps.pause(milliseconds(20));
    }
    throw work_error(fmt::format("{} for rank 0 at {}: {}; start it, or give a longer --timeout",
                                 waited(), master(), last.message()));
  }

  // Returns the start's key; stores the ranks' addresses in `table`.
  std::uint64_t ask_first(Steps& steps, tcp::socket& first, const Hello& hello,
                          std::vector<RankAddress>& table) {
    const auto read = [&](const asio::mutable_buffer& into) {
      const std::error_code error = steps.finish(
          first, [&](auto handler) { asio::async_read(first, into, std::move(handler)); });
      if (error == asio::error::timed_out) {
        throw work_error(
            fmt::format("{} for an answer of rank 0 at {}; is that another program's port?",
                        waited(), master()));
      }
      if (error) throw lost(0, error);
    };
    const std::error_code unsaid = steps.finish(first, [&](auto handler) {
      asio::async_write(first, asio::buffer(&hello, sizeof hello), std::move(handler));
    });
    if (unsaid) throw lost(0, unsaid);
    HelloAnswer answer;
    answer.word = {};
    read(asio::buffer(&answer, sizeof answer));
    const std::size_t table_size = table.size() * sizeof(RankAddress);
    const bool welcome = answer.kind == HelloAnswer::Kind::welcome;
    if (answer.word != hello_word ||
        (welcome ? answer.size != table_size : answer.size > longest_refusal)) {
      throw input_error(fmt::format(
          "--master {}: what listens there is not a pipeexec of this version; give rank 0's port",
          master()));
    }
    if (welcome) {
      read(asio::buffer(table.data(), table_size));
      return answer.key;
    }
    std::string why(answer.size, '\0');
    read(asio::buffer(why));
    throw error_of(answer.kind, why);
  }

  tcp::socket reach(int rank, const tcp::endpoint& at, const Hello& hello, Steps& steps) {
    tcp::socket socket(context_);
    std::error_code error =
        steps.finish(socket, [&](auto handler) { socket.async_connect(at, std::move(handler)); });
    if (!error) {
      error = steps.finish(socket, [&](auto handler) {
        asio::async_write(socket, asio::buffer(&hello, sizeof hello), std::move(handler));
      });
    }
    if (!error) return socket;
    throw work_error(
        fmt::format("rank {} cannot reach rank {} at {}: {}; let hosts connect to each other",
                    place_.rank, rank, in_words(at), error.message()));
  }

  asio::io_context& context_;
  TcpPlace place_;
  std::chrono::nanoseconds patience_;
  TcpClock::time_point start_ = TcpClock::now();
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(const TcpPlace& place, std::optional<std::int64_t> eager_limit_bytes,
               std::chrono::nanoseconds patience)
      : messages_(place.rank, place.ranks, large_from(eager_limit_bytes)) {
    sockets_ = Meeting(context_, place, patience).hold();
    is_waiting_to_write_.resize(sockets_.size());
    for (int rank = 0; rank < ranks(); ++rank) {
      if (!socket(rank)) continue;
      prepare(*socket(rank));
      await_bytes(rank);
    }
  }

  ~TcpTransport() override {
    try {
      if (failed_) return;
      messages_.say_goodbye();
      take_leave(seconds(2), {});
    } catch (const std::exception&) {  // the others notice by themselves
    }
  }

  int rank() const override { return messages_.rank(); }
  int ranks() const override { return messages_.ranks(); }
  std::string name() const override { return "tcp"; }

  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    const Ticket ticket = messages_.send(to, tag, bytes);
    write(to);
    return ticket;
  }

  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    const Ticket ticket = messages_.receive(from, tag, bytes);
    write(from);
    return ticket;
  }

  bool test(Ticket ticket) override {
    context_.poll();
    return messages_.take_if_done(ticket);
  }

  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override {
    context_.poll();
    for (BackOff pause;;) {
      for (std::size_t i = 0; i < tickets.size(); ++i) {
        if (messages_.take_if_done(tickets[i])) return i;
      }
      if (until == Time::max()) {
        context_.run_one();
        continue;
      }
      // The system wakes up at milliseconds, so the last ones are polled.
      const auto left = until - TcpClock::now();
      if (left <= left.zero()) return tickets.size();
      if (left > milliseconds(2)) {
        context_.run_one_for(left - milliseconds(1));
      } else if (context_.poll() == 0) {
        pause.pause();
      }
    }
  }

  std::string awaited(Ticket ticket) const override { return messages_.awaited(ticket); }
  void abandon() override { messages_.abandon(); }

  // Rank 0, which speaks for the job, may be busy for long before it listens.
  void fail(const Error& why) override {
    failed_ = true;
    messages_.say_failed(why);
    constexpr std::chrono::nanoseconds most = seconds(30);
    take_leave(seconds(1), std::min(patience().value_or(most), most));
  }

 private:
  static std::size_t large_from(std::optional<std::int64_t> eager_limit_bytes) {
    if (!eager_limit_bytes) return own_large_from;
    return std::min(own_large_from, static_cast<std::size_t>(*eager_limit_bytes));
  }

  std::optional<tcp::socket>& socket(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }

  void await_bytes(int from) {
    socket(from)->async_wait(tcp::socket::wait_read, [this, from](const std::error_code& error) {
      if (error) return messages_.has_ended(from, error.message());
      read(from);
    });
  }

  // Reads everything available; sends that it releases are written at once.
  void read(int from) {
    std::error_code error;
    while (!error) {
      const std::span<std::byte> room = messages_.room(from);
      const std::size_t count =
          socket(from)->read_some(asio::buffer(room.data(), room.size()), error);
      if (!error) messages_.has_come(from, count);
      if (count < room.size()) break;
    }
    if (error && error != asio::error::would_block) {
      return messages_.has_ended(
          from, error == asio::error::eof ? "its connection is closed" : error.message());
    }
    await_bytes(from);
    write(from);
  }

  // Writes as much as the system accepts.
  void write(int to) {
    if (!socket(to) || is_waiting_to_write_[static_cast<std::size_t>(to)]) return;
    std::error_code error;
    while (!error) {
      buffers_.clear();
      for (const auto& piece : messages_.unsent(to)) {
        buffers_.push_back(asio::buffer(piece.data(), piece.size()));
      }
      if (buffers_.empty()) return;
      messages_.has_sent(to, socket(to)->write_some(buffers_, error));
    }
    // Reading says more about a lost connection.
    if (error != asio::error::would_block) return;
    is_waiting_to_write_[static_cast<std::size_t>(to)] = true;
    socket(to)->async_wait(tcp::socket::wait_write, [this, to](const std::error_code& failure) {
      is_waiting_to_write_[static_cast<std::size_t>(to)] = false;
      if (!failure) write(to);
    });
  }

  // Closing a connection while the other rank still writes may lose unread data; so each writes
  // everything, closes its own half, and waits for the other; for rank 0 so much longer.
  void take_leave(std::chrono::nanoseconds time, std::chrono::nanoseconds longer_for_first) {
    for (int to = 0; to < ranks(); ++to) write(to);
    const auto wait_for = [&](int count, TcpClock::time_point until) {
      Steps(context_, until).run_while([&] {
        bool goes_on = false;
        for (int other = 0; other < count; ++other) {
          if (!socket(other) || messages_.ended(other)) continue;
          goes_on = true;
          std::error_code ignored;
          if (messages_.unsent(other).empty()) {
            socket(other)->shutdown(tcp::socket::shutdown_send, ignored);
          }
        }
        return goes_on;
      });
    };
    const TcpClock::time_point until = TcpClock::now() + time;
    wait_for(ranks(), until);
    wait_for(1, until + longer_for_first);
  }

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> stays_{context_.get_executor()};
  StreamMessages messages_;
  std::vector<std::optional<tcp::socket>> sockets_;  // by rank; none to itself
  std::vector<char> is_waiting_to_write_;
  std::vector<asio::const_buffer> buffers_;
  bool failed_ = false;
};

}  // namespace

std::string tcp_left_out() { return {}; }

std::unique_ptr<Transport> make_tcp_transport(const TcpPlace& place,
                                              std::optional<std::int64_t> eager_limit_bytes,
                                              std::chrono::nanoseconds patience) {
  try {
    return std::make_unique<TcpTransport>(place, eager_limit_bytes, patience);
  } catch (const std::system_error& error) {
    throw work_error(fmt::format("--transport tcp: {}", error.what()));
  }
}

}  // namespace pipesim::exec
