// The messages of one rank over a byte stream to each other rank: matching with receives, and
// framing. Knows no sockets. Every receive is announced to the rank it expects a message from; on a
// route, a pair of ranks and a tag, the n-th message belongs to the n-th receive. Small messages
// are sent at once, and buffered by a receiver that is not ready. Large ones are sent when their
// receive has been announced: they go from buffer to buffer, without intermediate copies. Frames
// are in this machine's byte order; a hello before them detects machines with another. Belongs to a
// transport; called only by its rank's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/transport/transport.h"

namespace pipesim::exec {

class StreamMessages {
 public:
  // Messages of `large_from` bytes or more are large.
  StreamMessages(int rank, int ranks, std::size_t large_from);

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(peers_.size()); }

  // As in Transport. Bytes of a send are in use until it is done or abandoned.
  Ticket send(int to, int tag, std::span<const std::byte> bytes);
  Ticket receive(int from, int tag, std::span<std::byte> bytes);
  std::string awaited(Ticket ticket) const;
  void abandon();
  // Whether it is done, which ends the ticket. Abandons everything and throws if its message has
  // another size, or it can never be done because of another rank.
  bool take_if_done(Ticket ticket);

  // The last message to other ranks: that this one has finished; or that it has failed and why,
  // unless it knows of another that failed first.
  void say_goodbye();
  void say_failed(const Error& why);

  // The stream to a rank: pieces to write in this order, none if there is nothing to write; then
  // how much was written. Pieces are valid until the next call of any function.
  std::span<const std::span<const std::byte>> unsent(int to);
  void has_sent(int to, std::size_t count);
  // The stream from a rank: where to put the next bytes, at least one; then how many arrived.
  std::span<std::byte> room(int from);
  void has_come(int from, std::size_t count);
  // The stream from a rank has ended, for this reason.
  void has_ended(int from, const std::string& why);
  bool ended(int from) const { return peer(from).ended; }

 private:
  enum class Kind : std::uint32_t { message, announcement, goodbye, failure };
  struct Header {
    Kind kind = Kind::message;
    std::int32_t tag = 0;  // of a failure, whose bytes are words: the rank that failed
    std::uint64_t size = 0;
  };

  struct Operation {
    int peer = 0;
    bool receives = false;
    bool done = false;
    std::span<const std::byte> out{};
    std::span<std::byte> in{};
    std::optional<Error> error{};
  };

  // An outgoing frame.
  struct Frame {
    Header header;
    std::span<const std::byte> bytes{};
    std::vector<std::byte> kept{};   // the bytes of a send that was abandoned midway
    std::optional<Ticket> ticket{};  // that ends with it
  };

  struct Lane {
    // Sending. Receives announced minus messages sent: negative if small ones were faster.
    std::int64_t announced = 0;
    std::deque<Ticket> held;  // sends waiting for their announcement
    // Receiving.
    std::deque<Ticket> posted;
    std::deque<std::vector<std::byte>> arrived;  // before their receive
    std::int64_t ahead = 0;                      // announced, but abandoned
  };

  struct Peer {
    std::map<int, Lane> lanes;  // by tag
    std::deque<Frame> frames;
    std::size_t written = 0;  // of the first frame

    // Incoming: a partial header, or the rest of a message.
    std::vector<std::byte> staging;
    bool direct = false;  // the last room was not in staging
    Header header;
    std::size_t header_size = 0;
    std::span<std::byte> rest;       // where the next bytes of a message go
    std::uint64_t unwanted = 0;      // bytes to discard
    std::optional<Ticket> receiver;  // whose message it is
    bool unexpected = false;         // it goes to `buffer`
    std::vector<std::byte> buffer;

    bool said_goodbye = false;
    bool ended = false;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_large(Ticket ticket) const { return operations_[ticket].out.size() >= large_from_; }
  Ticket open(Operation operation);
  void release(int to, int tag);
  void leave(int to, int tag, Ticket send);
  void arrive(int from, int tag, std::vector<std::byte> bytes);
  void fill(Ticket receive, std::span<const std::byte> bytes);
  void announce(int from, int tag);
  void say(const Header& header, const std::string& words = {});
  void has_failed(int rank, const Error& why, std::exception_ptr told);
  void begin(int from);
  void complete(int from);
  std::size_t take(int from, std::span<const std::byte> bytes);

  int rank_;
  std::size_t large_from_;
  std::vector<Peer> peers_;
  std::vector<Operation> operations_;  // by ticket
  std::vector<Ticket> free_;
  std::vector<std::span<const std::byte>> pieces_;
  // The first rank known to have failed, and why; and what ends everything that is not done.
  int failed_rank_ = 0;
  std::optional<Error> why_;
  std::exception_ptr failure_;
};

}  // namespace pipesim::exec
