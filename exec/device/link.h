// Messages from one rank's device memory to another's, and collectives over a group's devices,
// which never pass through the host.
//
// A link is one rank's end of all its channels. A channel leads one way,
// between two ranks; its messages arrive in the order in which they were sent,
// independently of other channels. Only making a link waits
// for another rank: a message starts when
// the device gets to it, and its end is a mark of the device. A link belongs to
// the thread of its rank; its device outlives it.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

// The kind of data on a channel.
enum class Lane : std::uint8_t { activations, gradients, tied_gradient };

struct Channel {
  int from = 0;  // ranks
  int to = 0;
  Lane lane = Lane::activations;

  friend auto operator<=>(const Channel&, const Channel&) = default;
};

// The identifier by which the ends of a channel, or of a group, find each other; made by one of
// them.
using ChannelKey = std::array<std::byte, 128>;

// Collectives over a group of ranks, each within the memory of its device. All ranks of the group
// start the same ones in the same order. One starts once the device has passed `after`; until the
// returned mark has passed the memory belongs to the link.
// Sums are of float32; the library chooses the order of additions.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  // `counts` has the sizes of consecutive parts by index: a rank's own part becomes sums; the
  // others are unspecified.
  virtual Mark reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts,
                              Mark after) = 0;
  // All ranks get all sums.
  virtual Mark all_reduce(float* numbers, std::int64_t count, Mark after) = 0;
  // `bytes` has the sizes of consecutive parts by index: all ranks get all parts.
  virtual Mark all_gather(void* memory, const std::vector<std::int64_t>& bytes, Mark after) = 0;
};

class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // Starts a non-empty message once the device has passed `after`; the receiver must expect the
  // same size. Until the returned mark has passed the memory belongs to the link.
  virtual Mark send(const Channel& channel, const void* from, std::int64_t bytes, Mark after) = 0;
  virtual Mark receive(const Channel& channel, void* to, std::int64_t bytes, Mark after) = 0;

  // The groups that it was made with, or null.
  virtual DeviceGroup* sums() { return nullptr; }
  virtual DeviceGroup* gathers() { return nullptr; }

  // Throws PeerLost, which names the other rank or the group, if a channel or group has failed.
  virtual void check() = 0;
  // Ends all messages and collectives: their marks pass, whatever has arrived. The link is unusable
  // afterwards.
  virtual void abort() = 0;
};

struct LinkSetup {
  int rank = 0;
  // The rank's channels, in an order that all ranks agree on, in which they are opened.
  struct End {
    Channel channel;
    ChannelKey key;
  };
  std::vector<End> ends;
  // The rank at index 0 makes its key.
  struct Group {
    ChannelKey key;
    int place = 0;  // of this rank
    int ranks = 1;
  };
  std::optional<Group> sums, gathers;  // separate, since either may wait while the other progresses
  std::optional<std::chrono::nanoseconds> patience;  // none: forever
};

// Makes links between devices of one kind. Any thread may call it.
class LinkLibrary {
 public:
  virtual ~LinkLibrary() = default;

  // For display, with its version: "NCCL 2.28.9".
  virtual std::string name() const = 0;
  virtual ChannelKey new_key() const = 0;
  // Opens each channel and sends something over it, then the groups. Called by all ranks. Throws
  // PeerLost or TimedOut, which names the unreachable rank. Later failures show in the waits for
  // it.
  virtual std::unique_ptr<DeviceLink> connect(Device& device, const LinkSetup& setup) const = 0;
};

}  // namespace pipesim::exec
