// The messages of one rank over a stream of bytes to each other rank: which belongs to
// which receive, and how they are framed. Knows no sockets.
//
// Every receive that starts is announced to the rank it expects a message from; of a route,
// a pair of ranks and a tag, the n-th message belongs to the n-th receive. Small messages
// leave at once, and wait with their receiver where it is not ready. Large ones leave when
// their receive has been announced: they go from buffer to buffer, and no rank holds what
// it has not asked for. Frames are in this machine's order of bytes; a hello before them
// tells machines of another order.
//
// Belongs to a transport, and is called by its rank's thread only.
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

  // As those of a transport. Bytes of a send are in use until it is done or abandoned.
  Ticket send(int to, int tag, std::span<const std::byte> bytes);
  Ticket receive(int from, int tag, std::span<std::byte> bytes);
  std::string awaited(Ticket ticket) const;
  void abandon();
  // Whether it is done, which ends the ticket. Abandons everything and throws where its
  // message has another size, or another rank keeps it from ever being done.
  bool take_if_done(Ticket ticket);

  // The last that other ranks hear: that this one has ended its work, or that it has
  // failed, or which other one has.
  void say_goodbye();
  void say_failed();

  // The stream to a rank: pieces to be written in this order, none where there is nothing
  // to write; then how much was. Pieces hold until the next call of anything.
  std::span<const std::span<const std::byte>> unsent(int to);
  void has_sent(int to, std::size_t count);
  // The stream from a rank: where the next bytes go, at least one; then how many came.
  std::span<std::byte> room(int from);
  void has_come(int from, std::size_t count);
  // The stream from a rank has ended, and why.
  void has_ended(int from, const std::string& why);
  bool ended(int from) const { return peer(from).ended; }

 private:
  enum class Kind : std::uint32_t { message, announcement, goodbye, failure };
  struct Header {
    Kind kind = Kind::message;
    std::int32_t tag = 0;  // of a failure: the rank that has failed
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

  // A frame on its way out.
  struct Frame {
    Header header;
    std::span<const std::byte> bytes{};
    std::vector<std::byte> kept{};   // the bytes of a send that was abandoned midway
    std::optional<Ticket> ticket{};  // that ends with it
  };

  struct Lane {
    // Sending. Receives announced, less messages that have left: below zero where small
    // ones were faster.
    std::int64_t announced = 0;
    std::deque<Ticket> held;  // sends whose turn has not come
    // Receiving.
    std::deque<Ticket> posted;
    std::deque<std::vector<std::byte>> arrived;  // before their receive
    std::int64_t ahead = 0;                      // announced, but abandoned
  };

  struct Peer {
    std::map<int, Lane> lanes;  // by tag
    std::deque<Frame> frames;
    std::size_t written = 0;  // of the first frame

    // What is coming: a header in part, or what is left of a message.
    std::vector<std::byte> staging;
    bool direct = false;  // the last room was not in there
    Header header;
    std::size_t header_size = 0;
    std::span<std::byte> rest;       // where the next bytes of a message go
    std::uint64_t unwanted = 0;      // so many of them go nowhere
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
  void say(const Header& header);
  void begin(int from);
  void complete(int from);
  std::size_t take(int from, std::span<const std::byte> bytes);

  int rank_;
  std::size_t large_from_;
  std::vector<Peer> peers_;
  std::vector<Operation> operations_;  // by ticket
  std::vector<Ticket> free_;
  std::vector<std::span<const std::byte>> pieces_;
  std::exception_ptr failure_;  // ends all that is not done
  int failed_rank_;             // the first known to have failed; otherwise this one
};

}  // namespace pipesim::exec
