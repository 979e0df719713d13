// How ranks exchange bytes: one interface with several implementations.
// Sends and receives are started and then awaited; only waits block. Between two ranks, messages of
// one tag are matched in the order in which they were started; different tags don't wait for each
// other. A transport belongs to one rank and is called only by that rank's thread. A function that
// throws has abandoned everything, so that buffers may be freed while the error unwinds.
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

// Thrown by a rank's waits when another rank has failed: with its exit status, and its words.
class PeerFailed : public Error {
 public:
  explicit PeerFailed(const Error& why)
      : Error(why.cause(), std::string("another rank failed: ") + why.what()) {}
  PeerFailed(int rank, const Error& why)
      : Error(why.cause(), "rank " + std::to_string(rank) + " failed: " + why.what()) {}
};

// A message has another size than its receiver expects; names both.
Error wrong_size(std::size_t came, int from, std::size_t expected);

// What a receive and a send wait for, in words.
std::string a_message_from(int rank);
std::string a_taker_at(int rank);

// A send or receive that was started. Awaited once; invalid after that.
using Ticket = std::size_t;

// Sums made by a library, of float32 in the memory of a rank's device, over the ranks of a group.
// The library chooses the order of additions: bits may depend on the number of ranks. All ranks of
// the group start the same ones in the same order. Until its ticket ends the numbers of a sum
// belong to the library. One rank, one thread.
class LibrarySums {
 public:
  virtual ~LibrarySums() = default;

  // All ranks pass the same number of numbers, divided into consecutive parts of `counts` by index
  // in the group. A rank's own part becomes sums; the others are unspecified.
  virtual Ticket reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts) = 0;
  // All numbers become sums.
  virtual Ticket all_reduce(float* numbers, std::int64_t count) = 0;
};

// The same for gathers: `bytes` has the sizes of consecutive parts by index, in the memory of a
// rank's device; all ranks get all parts.
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

  // `bytes` must not change until the send is done. With an eager limit, a send of so many bytes or
  // more is done only when its receiver has taken it.
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;
  // Done when `bytes` are filled; a message of another size is a work error.
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;

  // Whether it is done, which ends the ticket. Advances everything in progress.
  virtual bool test(Ticket ticket) = 0;
  // Blocks until one of them is done, ends its ticket, and returns its index; or until that time,
  // and then returns the number of tickets.
  using Time = std::chrono::steady_clock::time_point;
  virtual std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) = 0;
  // The same for as long as patience lasts: then everything in progress is abandoned and TimedOut
  // thrown. Unless set, patience lasts forever.
  std::size_t wait_any(std::span<const Ticket> tickets);
  void wait(Ticket ticket) { wait_any({&ticket, 1}); }
  // Abandons everything in progress and throws TimedOut, which says what that ticket waits for: for
  // callers that test tickets and measure the time themselves.
  [[noreturn]] void lose_patience(Ticket ticket);
  void set_patience(std::chrono::nanoseconds patience) { patience_ = patience; }
  std::optional<std::chrono::nanoseconds> patience() const { return patience_; }
  // What a ticket waits for, for display: "a message from rank 3".
  virtual std::string awaited(Ticket /*ticket*/) const { return "another rank"; }

  // The largest message, and the largest tag.
  struct Limits {
    std::int64_t message_bytes = std::numeric_limits<std::int64_t>::max();
    std::int64_t tag = std::numeric_limits<int>::max();
  };
  virtual Limits limits() const { return {}; }

  // Whether its library makes sums; and sums over a group that includes this rank: all its ranks
  // must make the call. Transport and device must outlive them.
  virtual bool has_library_sums() const { return false; }
  virtual std::unique_ptr<LibrarySums> library_sums(const RankGroup& /*group*/,
                                                    Device& /*device*/) {
    return nullptr;
  }

  // Gathers that never pass through the host, over a group whose devices are linked; else null.
  virtual std::unique_ptr<LibraryGathers> library_gathers(const RankGroup& /*group*/,
                                                          Device& /*device*/) {
    return nullptr;
  }

  // The link, if results, and only results, go from device to device; else null.
  virtual DeviceLink* link() { return nullptr; }

  // Ends all tickets; their bytes are not touched any more, except those of sends that a transport
  // can't cancel.
  virtual void abandon() = 0;

  // Tells the other ranks, if possible, why this one has failed: their waits throw PeerFailed, or
  // they exit.
  virtual void fail(const Error& why) = 0;

 private:
  std::optional<std::chrono::nanoseconds> patience_;
};

// A transport by its name on the command line.
struct TransportInfo {
  std::string name;
  std::string what;      // for display
  std::string left_out;  // why this build lacks it, or empty
};
std::vector<TransportInfo> known_transports();
// The one of that name, available or not; does not probe others.
std::optional<TransportInfo> find_transport(const std::string& name);

}  // namespace pipesim::exec
