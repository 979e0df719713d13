// The flags that say what replicas of a pipeline there are and what they split, alike for both
// programs.
//
// Plain values and functions; any thread. Errors are input errors, in the words of the command
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cost/estimate/training.h"

namespace pipesim {

// Texts as given; absent where they were not.
struct ReplicaFlags {
  std::optional<std::string> data_parallel, zero, shard_over, gather, bucket_bytes;
};

// Sets those of a training that are given, no buckets where those are "off". Whether they fit each
// other check_replicas() says.
void read_replicas(const ReplicaFlags& flags, Training& training);

// A --global-batch as microbatches of each replica.
std::string microbatches_of(const std::string& global_batch, std::int64_t replicas,
                            std::int64_t micro_batch_size);

}  // namespace pipesim
