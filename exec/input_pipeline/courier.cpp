#include "exec/input_pipeline/courier.h"

#include <algorithm>
#include <utility>

#include "exec/transport/back_off.h"

namespace pipesim::exec {
namespace {

// Waiting ranks yield processors to computing ones, if there are too few.
constexpr std::chrono::microseconds shortest_pause(10);

// Calls `visit` with each piece of bytes that did not fit into their head.
template <typename Byte, typename Visit>
void for_each_piece(std::span<Byte> bytes, std::size_t in_head, const Visit& visit) {
  if (bytes.size() <= in_head) return;
  for (std::size_t at = 0; at < bytes.size(); at += largest_piece) {
    visit(bytes.subspan(at, std::min(largest_piece, bytes.size() - at)));
  }
}

}  // namespace

std::vector<Bytes> Courier::exchange(int lane, const std::string& what, std::vector<Bytes> given) {
  if (ranks() == 1) return given;
  Exchange own;
  own.tag = first_free_tag + lane;
  own.what = &what;
  own.given = std::move(given);
  own.got.resize(own.given.size());
  own.leaving.resize(own.given.size());
  own.coming.resize(own.given.size());
  std::unique_lock lock(mutex_);
  if (stopping_ || carries_no_more_) throw Stopped();
  waiting_.push_back(&own);
  handed_in_.notify_one();
  ended_.wait(lock, [&] { return own.end != Exchange::End::none; });
  if (own.end == Exchange::End::stopped) throw Stopped();
  return std::move(own.got);
}

void Courier::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  handed_in_.notify_one();
}

void Courier::carry() {
  try {
    carry_on();
  } catch (...) {
    stop_all();
    throw;
  }
  stop_all();
}

void Courier::carry_on() {
  using std::chrono::nanoseconds;
  BackOff back_off;
  nanoseconds pause(0);  // before polling again
  for (;;) {
    std::vector<Exchange*> come;
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [&] { return stopping_ || !waiting_.empty(); };
      if (messages_.empty()) {
        handed_in_.wait(lock, has_news);
      } else if (pause > nanoseconds(0)) {
        handed_in_.wait_for(lock, pause, has_news);
      }
      if (stopping_) return;
      come.swap(waiting_);
      begun_.insert(begun_.end(), come.begin(), come.end());
    }
    for (Exchange* exchange : come) begin(*exchange);
    if (poll() || !come.empty()) {
      back_off = {};
      pause = nanoseconds(0);
      continue;
    }
    check_patience();
    // Without a pause it polls again at once. A yield would be costly: Linux counts it as used
    // time, and computing streams would run first for long.
    pause = back_off.next();
    if (pause > nanoseconds(0)) pause = std::max<nanoseconds>(pause, shortest_pause);
  }
}

void Courier::begin(Exchange& exchange) {
  exchange.since = std::chrono::steady_clock::now();
  const int ranks = transport_.ranks();
  const int own = transport_.rank();
  exchange.open = 1;  // so that it doesn't end before all of it has begun
  for (int i = 1; i < ranks; ++i) {
    const int from = (own + ranks - i) % ranks;
    Head& head = exchange.coming[static_cast<std::size_t>(from)];
    receive(exchange, from, std::as_writable_bytes(std::span(&head, 1)), from);
  }
  for (int i = 1; i < ranks; ++i) {
    const int to = (own + i) % ranks;
    const auto at = static_cast<std::size_t>(to);
    const Bytes& bytes = exchange.given[at];
    Head& head = exchange.leaving[at];
    head.size = std::ssize(bytes);
    if (bytes.size() <= head.first.size()) std::ranges::copy(bytes, head.first.begin());
    send(exchange, to, std::as_bytes(std::span(&head, 1)));
    for_each_piece(std::span<const std::byte>(bytes), head.first.size(),
                   [&](std::span<const std::byte> piece) { send(exchange, to, piece); });
  }
  std::swap(exchange.given[static_cast<std::size_t>(own)],
            exchange.got[static_cast<std::size_t>(own)]);
  if (--exchange.open == 0) end(exchange, Exchange::End::done);
}

void Courier::send(Exchange& exchange, int to, std::span<const std::byte> bytes) {
  messages_.push_back({&exchange, transport_.send(to, exchange.tag, bytes)});
  ++exchange.open;
}

void Courier::receive(Exchange& exchange, int from, std::span<std::byte> bytes, int head_of) {
  messages_.push_back({&exchange, transport_.receive(from, exchange.tag, bytes), head_of});
  ++exchange.open;
}

void Courier::take_head(Exchange& exchange, int from) {
  const auto at = static_cast<std::size_t>(from);
  const Head& head = exchange.coming[at];
  Bytes& bytes = exchange.got[at];
  bytes.resize(static_cast<std::size_t>(head.size));
  if (bytes.size() <= head.first.size()) {
    std::copy_n(head.first.begin(), bytes.size(), bytes.begin());
  }
  for_each_piece(std::span<std::byte>(bytes), head.first.size(), [&](std::span<std::byte> piece) {
    receive(exchange, from, piece, Message::no_head);
  });
}

bool Courier::poll() {
  bool any = false;
  for (std::size_t i = 0; i < messages_.size();) {
    const Message message = messages_[i];
    if (!is_done(message)) {
      ++i;
      continue;
    }
    any = true;
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
    Exchange& exchange = *message.exchange;
    exchange.since = std::chrono::steady_clock::now();
    if (message.head_of != Message::no_head) take_head(exchange, message.head_of);
    if (--exchange.open == 0) end(exchange, Exchange::End::done);
  }
  return any;
}

bool Courier::is_done(const Message& message) {
  try {
    return transport_.test(message.ticket);
  } catch (const PeerLost& error) {
    throw PeerLost(*message.exchange->what + ": " + error.what());
  }
}

void Courier::check_patience() {
  const auto patience = transport_.patience();
  if (!patience || messages_.empty()) return;
  const auto longest = std::ranges::min_element(
      messages_, {}, [](const Message& message) { return message.exchange->since; });
  if (std::chrono::steady_clock::now() - longest->exchange->since < *patience) return;
  try {
    transport_.lose_patience(longest->ticket);
  } catch (const TimedOut& error) {
    throw TimedOut(*longest->exchange->what + ": " + error.what());
  }
}

void Courier::end(Exchange& exchange, Exchange::End how) {
  const std::lock_guard lock(mutex_);
  std::erase(begun_, &exchange);
  exchange.end = how;
  ended_.notify_all();
}

// Afterwards bytes may be freed: nothing touches them any more.
void Courier::stop_all() {
  if (!messages_.empty()) transport_.abandon();
  messages_.clear();
  const std::lock_guard lock(mutex_);
  carries_no_more_ = true;
  for (std::vector<Exchange*>* list : {&waiting_, &begun_}) {
    for (Exchange* exchange : *list) exchange->end = Exchange::End::stopped;
    list->clear();
  }
  ended_.notify_all();
}

}  // namespace pipesim::exec
