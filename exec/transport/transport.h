// How ranks exchange bytes: one interface, an implementation a transport.
//
// Sends and receives are started and then awaited; nothing but wait() blocks.
// Between two ranks, messages of one tag are matched in the order in which
// they were started; different tags don't wait for each other. A transport
// belongs to one rank and is called by that rank's thread only. What fails in
// it has abandoned everything, so that buffers may go while an error unwinds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/device/peer_errors.h"
#include "traces/base/error.h"
#include "traces/mesh.h"

namespace pipesim::exec {

class Device;
class DeviceLink;

// What a rank's waits end with when another rank has failed.
class PeerFailed : public Error {
 public:
  PeerFailed() : Error(Cause::work, "another rank failed") {}
  explicit PeerFailed(int rank)
      : Error(Cause::work, "rank " + std::to_string(rank) + " failed; its own words say why") {}
};

// That a message has another size than its receiver expects, which names both.
Error wrong_size(std::size_t came, int from, std::size_t expected);

// What a receive waits for, and a send, in words.
std::string a_message_from(int rank);
std::string a_taker_at(int rank);

// A send or receive that was started. Awaited once; invalid after that.
using Ticket = std::size_t;

// Sums that a library makes by itself, of float32 in the memory of a rank's device, over the
// ranks of a group. In which order it adds is its own: bits may depend on how many ranks there
// are. All ranks of the group start the same ones in the same order. Until its ticket ends the
// numbers of a sum are the library's. One rank, one thread.
class LibrarySums {
 public:
  virtual ~LibrarySums() = default;

  // Of as many numbers as all ranks give, those that `counts` says, by place in the group and
  // one behind the other, are a rank's. Its own become sums; what the others are is not said.
  virtual Ticket reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts) = 0;
  // All of them.
  virtual Ticket all_reduce(float* numbers, std::int64_t count) = 0;
};

// The same of gathers: of bytes in the memory of a rank's device that are ranks', so many each, by
// place and one behind the other, all get all.
class LibraryGathers {
 public:
  virtual ~LibraryGathers() = default;
  virtual Ticket all_gather(void* memory, const std::vector<std::int64_t>& bytes) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual std::string name() const = 0;

  // `bytes` stay as they are until the send is done. With an eager limit, a
  // send of so many bytes or more is done only when its receiver has taken it.
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;
  // Done when `bytes` are filled; a message of another size is a work error.
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;

  // Whether it is done, which ends the ticket. Gives the transport time to
  // make progress on everything that is under way.
  virtual bool test(Ticket ticket) = 0;
  // Blocks until one of them is done, ends its ticket, and returns its place; or
  // until that time, and then returns how many there are.
  using Time = std::chrono::steady_clock::time_point;
  virtual std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) = 0;
  // The same for as long as patience lasts: then what is under way is abandoned
  // and TimedOut thrown. Without patience being set it lasts for ever.
  std::size_t wait_any(std::span<const Ticket> tickets);
  void wait(Ticket ticket) { wait_any({&ticket, 1}); }
  // Abandons what is under way and throws TimedOut, which tells what that ticket waits for: for
  // whoever tests tickets and counts the time itself.
  [[noreturn]] void lose_patience(Ticket ticket);
  void set_patience(std::chrono::nanoseconds patience) { patience_ = patience; }
  std::optional<std::chrono::nanoseconds> patience() const { return patience_; }
  // For people, what a ticket waits for: "a message from rank 3".
  virtual std::string awaited(Ticket /*ticket*/) const { return "another rank"; }

  // The most that a message, and a tag, may be.
  struct Limits {
    std::int64_t message_bytes = std::numeric_limits<std::int64_t>::max();
    std::int64_t tag = std::numeric_limits<int>::max();
  };
  virtual Limits limits() const { return {}; }

  // Whether its library makes sums, and those over a group of which this rank is one: its ranks
  // ask for them together. Transport and device outlive them.
  virtual bool has_library_sums() const { return false; }
  virtual std::unique_ptr<LibrarySums> library_sums(const RankGroup& /*group*/,
                                                    Device& /*device*/) {
    return nullptr;
  }

  // Gathers that never pass through the host, over a group that the devices are linked for; else
  // null.
  virtual std::unique_ptr<LibraryGathers> library_gathers(const RankGroup& /*group*/,
                                                          Device& /*device*/) {
    return nullptr;
  }

  // Where results go from device to device instead, and only they; else null.
  virtual DeviceLink* link() { return nullptr; }

  // Ends all tickets; no bytes of theirs are touched any more, other than those
  // of sends that a transport can't take back.
  virtual void abandon() = 0;

  // Tells the other ranks, as far as possible, that this one has failed: their
  // waits end with PeerFailed, or they end themselves.
  virtual void fail() = 0;

 private:
  std::optional<std::chrono::nanoseconds> patience_;
};

// A transport by its name on the command line.
struct TransportInfo {
  std::string name;
  std::string what;      // for people
  std::string left_out;  // why it isn't there, or empty
};
std::vector<TransportInfo> known_transports();
// The one of that name, there or not; looks at no other.
std::optional<TransportInfo> find_transport(const std::string& name);

}  // namespace pipesim::exec
