#include "exec/transport/stream_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

constexpr std::size_t staging_size = std::size_t{1} << 14;
constexpr std::size_t max_pieces = 32;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;  // of one message
constexpr std::size_t max_words = 10'000;                     // of a failure, in bytes

}  // namespace

StreamMessages::StreamMessages(int rank, int ranks, std::size_t large_from)
    : rank_(rank), large_from_(large_from), peers_(static_cast<std::size_t>(ranks)) {
  static_assert(sizeof(Header) == 16);
  for (Peer& peer : peers_) peer.staging.resize(staging_size);
}

Ticket StreamMessages::open(Operation operation) {
  if (free_.empty()) {
    operations_.push_back(std::move(operation));
    return operations_.size() - 1;
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  operations_[ticket] = std::move(operation);
  return ticket;
}

Ticket StreamMessages::send(int to, int tag, std::span<const std::byte> bytes) {
  const Ticket ticket = open({.peer = to, .out = bytes});
  peer(to).lanes[tag].held.push_back(ticket);
  release(to, tag);
  return ticket;
}

Ticket StreamMessages::receive(int from, int tag, std::span<std::byte> bytes) {
  const Ticket ticket = open({.peer = from, .receives = true, .in = bytes});
  Lane& lane = peer(from).lanes[tag];
  if (lane.arrived.empty()) {
    lane.posted.push_back(ticket);
  } else {
    fill(ticket, lane.arrived.front());
    lane.arrived.pop_front();
  }
  if (lane.ahead > 0) {
    --lane.ahead;
  } else {
    announce(from, tag);
  }
  return ticket;
}

std::string StreamMessages::awaited(Ticket ticket) const {
  const Operation& own = operations_[ticket];
  return own.receives ? a_message_from(own.peer) : a_taker_at(own.peer);
}

void StreamMessages::announce(int from, int tag) {
  if (from != rank_) {
    peer(from).frames.push_back({.header = {Kind::announcement, tag, 0}});
    return;
  }
  ++peer(rank_).lanes[tag].announced;
  release(rank_, tag);
}

// Starts the sends of a route that have been announced.
void StreamMessages::release(int to, int tag) {
  Lane& lane = peer(to).lanes[tag];
  while (!lane.held.empty() && (lane.announced > 0 || !is_large(lane.held.front()))) {
    const Ticket send = lane.held.front();
    lane.held.pop_front();
    --lane.announced;
    leave(to, tag, send);
  }
}

void StreamMessages::leave(int to, int tag, Ticket send) {
  const std::span<const std::byte> bytes = operations_[send].out;
  if (to != rank_) {
    peer(to).frames.push_back(
        {.header = {Kind::message, tag, bytes.size()}, .bytes = bytes, .ticket = send});
    return;
  }
  operations_[send].done = true;
  Lane& lane = peer(rank_).lanes[tag];
  if (lane.posted.empty()) {
    lane.arrived.emplace_back(bytes.begin(), bytes.end());
  } else {
    fill(lane.posted.front(), bytes);
    lane.posted.pop_front();
  }
}

// A complete message that was unexpected when it began to arrive.
void StreamMessages::arrive(int from, int tag, std::vector<std::byte> bytes) {
  Lane& lane = peer(from).lanes[tag];
  if (lane.posted.empty()) {
    lane.arrived.push_back(std::move(bytes));
  } else {
    fill(lane.posted.front(), bytes);
    lane.posted.pop_front();
  }
}

void StreamMessages::fill(Ticket receive, std::span<const std::byte> bytes) {
  Operation& own = operations_[receive];
  own.done = true;
  if (bytes.size() != own.in.size()) {
    own.error = wrong_size(bytes.size(), own.peer, own.in.size());
  } else if (!bytes.empty()) {
    std::memcpy(own.in.data(), bytes.data(), bytes.size());
  }
}

bool StreamMessages::take_if_done(Ticket ticket) {
  const Operation& own = operations_[ticket];
  if (own.done && !own.error) {
    free_.push_back(ticket);
    return true;
  }
  if (own.done) {
    const Error error = *own.error;
    abandon();
    throw error;
  }
  if (failure_) {
    abandon();
    std::rethrow_exception(failure_);
  }
  if (peer(own.peer).ended) {
    const std::string what =
        fmt::format("waits for {}, which has ended its work: do all ranks run the same command?",
                    awaited(ticket));
    abandon();
    throw PeerLost(what);
  }
  return false;
}

// Cancels sends that have not begun; keeps copies of the rest of others.
void StreamMessages::abandon() {
  for (Peer& other : peers_) {
    for (auto& [tag, lane] : other.lanes) {
      lane.held.clear();
      lane.ahead += std::ssize(lane.posted);
      lane.posted.clear();
    }
    const Frame* begun = other.written > 0 ? &other.frames.front() : nullptr;
    for (Frame& frame : other.frames) {
      if (!frame.ticket || &frame != begun) continue;
      frame.kept.assign(frame.bytes.begin(), frame.bytes.end());
      frame.bytes = frame.kept;
      frame.ticket.reset();
    }
    std::erase_if(other.frames, [&](const Frame& frame) {
      if (frame.ticket) ++other.lanes[frame.header.tag].announced;
      return frame.ticket.has_value();
    });
    if (other.receiver) {
      other.unwanted += other.rest.size();
      other.rest = {};
      other.receiver.reset();
    }
  }
  operations_.clear();
  free_.clear();
}

void StreamMessages::say(const Header& header, const std::string& words) {
  for (int to = 0; to < ranks(); ++to) {
    if (to == rank_ || peer(to).ended) continue;
    Frame& frame = peer(to).frames.emplace_back(Frame{.header = header});
    const auto bytes = std::as_bytes(std::span(words));
    frame.kept.assign(bytes.begin(), bytes.end());
    frame.bytes = frame.kept;
    frame.header.size = bytes.size();
  }
}

void StreamMessages::say_goodbye() { say({Kind::goodbye, 0, 0}); }

void StreamMessages::say_failed(const Error& why) {
  abandon();
  if (!why_) {
    failed_rank_ = rank_;
    why_ = why;
  }
  const std::string words = why_->what();
  say({Kind::failure, failed_rank_, 0},
      std::to_string(why_->exit_status()) + words.substr(0, max_words));
}

// Only the first counts.
void StreamMessages::has_failed(int rank, const Error& why, std::exception_ptr told) {
  if (failure_) return;
  failed_rank_ = rank;
  why_ = why;
  failure_ = std::move(told);
}

std::span<const std::span<const std::byte>> StreamMessages::unsent(int to) {
  const Peer& other = peer(to);
  pieces_.clear();
  std::size_t skip = other.written;
  const auto add = [&](std::span<const std::byte> piece) {
    const std::size_t skipped = std::min(skip, piece.size());
    skip -= skipped;
    if (skipped < piece.size()) pieces_.push_back(piece.subspan(skipped));
  };
  for (const Frame& frame : other.frames) {
    if (pieces_.size() + 2 > max_pieces) break;
    add(std::as_bytes(std::span(&frame.header, 1)));
    add(frame.bytes);
  }
  return pieces_;
}

void StreamMessages::has_sent(int to, std::size_t count) {
  Peer& other = peer(to);
  other.written += count;
  while (!other.frames.empty()) {
    const Frame& frame = other.frames.front();
    const std::size_t size = sizeof(Header) + frame.bytes.size();
    if (other.written < size) return;
    if (frame.ticket) operations_[*frame.ticket].done = true;
    other.written -= size;
    other.frames.pop_front();
  }
}

// The rest of a message goes directly to its buffer; small data are collected.
std::span<std::byte> StreamMessages::room(int from) {
  Peer& other = peer(from);
  other.direct = other.rest.size() >= staging_size;
  return other.direct ? other.rest : std::span(other.staging);
}

void StreamMessages::has_come(int from, std::size_t count) {
  Peer& other = peer(from);
  if (other.direct) {
    other.rest = other.rest.subspan(count);
    if (other.rest.empty()) complete(from);
    return;
  }
  std::span<const std::byte> bytes = std::span(other.staging).first(count);
  while (!bytes.empty()) bytes = bytes.subspan(take(from, bytes));
}

// Takes the bytes that belong to one header or one message; returns how many.
std::size_t StreamMessages::take(int from, std::span<const std::byte> bytes) {
  Peer& other = peer(from);
  if (other.header_size < sizeof(Header)) {
    const std::size_t count = std::min(bytes.size(), sizeof(Header) - other.header_size);
    std::memcpy(std::as_writable_bytes(std::span(&other.header, 1)).data() + other.header_size,
                bytes.data(), count);
    other.header_size += count;
    if (other.header_size == sizeof(Header)) begin(from);
    return count;
  }
  std::size_t count = 0;
  if (other.unwanted > 0) {
    count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), other.unwanted));
    other.unwanted -= count;
  } else {
    count = std::min(bytes.size(), other.rest.size());
    std::memcpy(other.rest.data(), bytes.data(), count);
    other.rest = other.rest.subspan(count);
  }
  if (other.unwanted == 0 && other.rest.empty()) complete(from);
  return count;
}

// A header is complete.
void StreamMessages::begin(int from) {
  Peer& other = peer(from);
  const auto& [kind, tag, size] = other.header;
  if (kind == Kind::message && size <= most_bytes) {
    Lane& lane = other.lanes[tag];
    if (lane.posted.empty()) {
      other.unexpected = true;
      other.buffer.resize(size);
      other.rest = other.buffer;
    } else {
      Operation& own = operations_[lane.posted.front()];
      other.receiver = lane.posted.front();
      lane.posted.pop_front();
      if (size == own.in.size()) {
        other.rest = own.in;
      } else {
        own.error = wrong_size(size, from, own.in.size());
        other.unwanted = size;
      }
    }
    if (size == 0) complete(from);
    return;
  }
  if (kind == Kind::failure && size > 0 && size <= max_words + 1) {
    other.buffer.resize(size);
    other.rest = other.buffer;
    return;
  }
  other.header_size = 0;
  if (kind == Kind::announcement) {
    ++other.lanes[tag].announced;
    release(from, tag);
  } else if (kind == Kind::goodbye) {
    other.said_goodbye = true;
  } else {
    const Error why =
        work_error("it sends something other than a message; do all ranks run the same pipeexec?");
    has_failed(from, why, std::make_exception_ptr(PeerFailed(from, why)));
  }
}

// A message is complete.
void StreamMessages::complete(int from) {
  Peer& other = peer(from);
  other.header_size = 0;
  if (other.receiver) operations_[*other.receiver].done = true;
  other.receiver.reset();
  if (other.header.kind == Kind::failure) {
    const std::vector<std::byte> words = std::exchange(other.buffer, {});
    const std::string text(reinterpret_cast<const char*>(words.data()), words.size());
    const Error why(text.front() == '2' ? Error::Cause::input : Error::Cause::work, text.substr(1));
    has_failed(other.header.tag, why, std::make_exception_ptr(PeerFailed(other.header.tag, why)));
  } else if (std::exchange(other.unexpected, false)) {
    arrive(from, other.header.tag, std::exchange(other.buffer, {}));
  }
}

void StreamMessages::has_ended(int from, const std::string& why) {
  Peer& other = peer(from);
  other.ended = true;
  other.frames.clear();
  other.written = 0;
  if (other.said_goodbye) return;
  const std::string what = "its process has ended, or its host can't be reached";
  has_failed(
      from, work_error(what),
      std::make_exception_ptr(PeerLost(fmt::format("lost rank {} ({}): {}", from, why, what))));
}

}  // namespace pipesim::exec
