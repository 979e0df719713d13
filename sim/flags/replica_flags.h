// The flags for replicas of a pipeline and what they split, the same in both programs.
//
// Plain values and functions; any thread. Errors are input errors, in the words of the command
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cost/estimate/training.h"

namespace pipesim {

// Texts as given; absent if they were not.
struct ReplicaFlags {
  std::optional<std::string> data_parallel, zero, shard_over, gather, bucket_bytes;

  bool operator==(const ReplicaFlags&) const = default;
};

// Sets those that are given in a training; "off" means no buckets. check_replicas() checks whether
// they are consistent.
void read_replicas(const ReplicaFlags& flags, Training& training);

// Converts a --global-batch to microbatches per replica.
std::string microbatches_of(const std::string& global_batch, std::int64_t replicas,
                            std::int64_t micro_batch_size);

}  // namespace pipesim
