// Saves a running training: each rank writes its file, rank 0 publishes the checkpoint.
//
// Synchronously, or during the following iterations: then a copy is taken, and a separate thread
// of the rank writes it and tells rank 0, which publishes once all have. All ranks
// call the same functions in the same order; ranks other than 0 never wait for another.
// The next call throws any failure. One rank, one thread; transport, device and disk
// must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/hash.h"
#include "exec/checkpoint/snapshot.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

class Saver {
 public:
  Saver(Disk& disk, Device& device, Transport& transport, const SavePlan& plan);
  // Waits for pending writes first.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Called on rank 0, before any save.
  void prepare() { folder_.prepare(); }
  // Saves the rank's own arrays; rank 0's manifest counts, without files. Waits for the previous
  // save. Returns the bytes of the arrays.
  std::int64_t save(const Manifest& manifest, const std::vector<SavedArray>& arrays);
  // Advances pending saves, without blocking.
  void poll() { go_on(false); }
  // Blocks until no save is pending.
  void finish() { go_on(true); }

  // A background write, from the end of its copy until the rank had finished: it had written, and
  // rank 0 had published. By CLOCK_MONOTONIC.
  struct Written {
    std::int64_t iteration;  // the manifest's
    std::int64_t bytes;
    std::int64_t start_ns;
    std::int64_t end_ns;
  };
  // Those since the last call.
  std::vector<Written> take_written() { return std::exchange(written_, {}); }

 private:
  // A rank's report to rank 0 about its file.
  struct Report {
    std::int64_t bytes;
    std::array<char, hash_digits> hash;
  };
  void go_on(bool waits);
  void take_file(bool waits);
  void take_reports(bool waits);
  void publish(bool waits);
  void note_written();
  bool awaits_reports() const;
  bool has_ended(Ticket ticket, bool waits);

  Transport& transport_;
  Device& device_;
  Disk& disk_;
  CheckpointFolder folder_;
  bool beside_;
  Snapshot snapshot_;
  Manifest manifest_;  // of the pending save
  std::future<CheckpointFile> writing_;
  std::int64_t copied_ns_ = 0;
  std::int64_t through_ns_ = 0;  // the writing or publishing thread's
  std::vector<Written> written_;
  Report sent_{};
  std::optional<Ticket> sending_;
  // Rank 0's, by rank; its own has no ticket.
  std::vector<Report> reports_;
  std::vector<std::optional<Ticket>> awaited_;
  bool is_to_publish_ = false;
  std::future<void> publishing_;
};

}  // namespace pipesim::exec
