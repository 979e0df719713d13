// What a checkpoint takes: how much each rank writes, and how fast storage takes it.
//
// The model: all ranks write to one storage. A rank's write needs so much of the storage's time:
// its bytes at the storage's rate, and `sync_ns` until its files are safe there. Writes that are
// under way at once share the storage evenly, processor sharing in continuous time, syncs
// included: those of several ranks wait for each other, too. Rank 0 publishes a checkpoint once
// all have written. A synchronous SAVE of rank 0 lasts until that is done, of any other rank
// until its own write is. An asynchronous one waits until the rank has done so with the one
// before, and then copies; the write begins with the copy's end.
//
// Plain values; pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipesim {

struct SaveCosts {
  // That a device writes; one per rank.
  std::vector<std::int64_t> bytes;
  // Devices for which a rank stands, replicas and tensor-parallel ranks: each writes so much.
  std::int64_t writers = 1;
  std::optional<std::int64_t> bytes_per_second = {};  // of the storage; unlimited where absent
  std::int64_t sync_ns = 0;                           // of the storage's time, for each write
  std::int64_t publish_ns = 0;                        // by rank 0, once all have written
  // Of a device to its host's memory, which is its own; unlimited where absent.
  std::optional<std::int64_t> copy_bytes_per_second = {};

  // What a rank's writes need of the storage's time, all of its devices together; at most the
  // largest that 64 bits hold.
  std::int64_t storage_ns(std::int64_t rank_bytes) const;
  std::int64_t copy_ns(std::int64_t rank_bytes) const;
  std::int64_t total_bytes() const;  // of a checkpoint
  bool operator==(const SaveCosts&) const = default;
};

// When the writes of a checkpoint end, by rank, that begin at those times: the first whole
// nanosecond by which each is done. Rank 0 then still has to publish.
std::vector<std::int64_t> written_ns(const SaveCosts& costs,
                                     std::span<const std::int64_t> starts_ns);

// When ranks are through with a checkpoint whose writes begin then: rank 0 once it is published,
// the others once they have written.
std::vector<std::int64_t> save_ends_ns(const SaveCosts& costs,
                                       std::span<const std::int64_t> starts_ns);

}  // namespace pipesim
