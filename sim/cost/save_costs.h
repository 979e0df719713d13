// The costs of a checkpoint: how much each rank writes, and how fast the storage is.
//
// The model: all ranks write to one storage. A rank's write needs some of the storage's time: its
// bytes at the storage's rate, and `sync_ns` until its files are safe there. Concurrent writes
// share the storage evenly (processor sharing in continuous time), syncs included: those of several
// ranks wait for each other, too. Rank 0 publishes a checkpoint once all have written. A
// synchronous SAVE of rank 0 lasts until that is done, and any other rank's until its own write is.
// An asynchronous one waits until the rank has finished the checkpoint before, and then copies; the
// write begins when the copy ends.
//
// Plain values; pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipesim {

struct SaveCosts {
  // Written by one device; one entry per rank.
  std::vector<std::int64_t> bytes;
  // The number of devices that a rank represents, replicas and tensor-parallel ranks: each writes
  // those bytes.
  std::int64_t writers = 1;
  std::optional<std::int64_t> bytes_per_second = {};  // of the storage; unlimited if absent
  std::int64_t sync_ns = 0;                           // of the storage's time, for each write
  std::int64_t publish_ns = 0;                        // by rank 0, once all have written
  // From a device to its host's memory, not shared with others; unlimited if absent.
  std::optional<std::int64_t> copy_bytes_per_second = {};

  // The storage's time that a rank's writes need, for all of its devices together; saturates at the
  // largest 64-bit value.
  std::int64_t storage_ns(std::int64_t rank_bytes) const;
  std::int64_t copy_ns(std::int64_t rank_bytes) const;
  std::int64_t total_bytes() const;  // of a checkpoint
  bool operator==(const SaveCosts&) const = default;
};

// When the writes of a checkpoint that begin at those times end, by rank: the first whole
// nanosecond by which each is done. Rank 0 then still has to publish.
std::vector<std::int64_t> written_ns(const SaveCosts& costs,
                                     std::span<const std::int64_t> starts_ns);

// When ranks are done with a checkpoint whose writes begin at those times: rank 0 once it is
// published, the others once they have written.
std::vector<std::int64_t> save_ends_ns(const SaveCosts& costs,
                                       std::span<const std::int64_t> starts_ns);

}  // namespace pipesim
