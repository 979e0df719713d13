#include "sim/flags/replica_flags.h"

#include <fmt/format.h>

#include <charconv>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Any number: check_replicas() checks the range.
int parse_stage(const std::string& text, std::string_view flag) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || at != end) {
    throw input_error(
        fmt::format("{}: {} is not a whole number; give 0, 1, 2 or 3", flag, quote(text)));
  }
  return value;
}

Gather parse_gather(const std::string& text) {
  for (const Gather gather : {Gather::window, Gather::pass, Gather::once}) {
    if (text == gather_name(gather)) return gather;
  }
  throw input_error(
      fmt::format("--gather: {}", unknown_name("way", text, {"window", "pass", "once"})));
}

}  // namespace

void read_replicas(const ReplicaFlags& flags, Training& training) {
  if (flags.data_parallel) {
    training.data_parallel = parse_count(*flags.data_parallel, "--data-parallel");
  }
  if (flags.zero) training.zero = parse_stage(*flags.zero, "--zero");
  if (flags.shard_over) training.shard_over = parse_count(*flags.shard_over, "--shard-over");
  if (flags.gather) training.gather = parse_gather(*flags.gather);
  if (!flags.bucket_bytes || *flags.bucket_bytes == "off") return;
  training.bucket_bytes = parse_bytes(*flags.bucket_bytes, "--bucket-bytes");
  if (*training.bucket_bytes == 0) {
    throw input_error(
        "--bucket-bytes: a bucket of 0 bytes holds nothing; give its size, or off to reduce all at "
        "once");
  }
}

std::string microbatches_of(const std::string& global_batch, std::int64_t replicas,
                            std::int64_t micro_batch_size) {
  const std::int64_t sequences = parse_count(global_batch, "--global-batch");
  const std::int64_t each = replicas * micro_batch_size;
  if (sequences % each == 0) return std::to_string(sequences / each);
  const std::int64_t below = sequences / each * each;
  throw input_error(fmt::format(
      "--global-batch {}: {} with microbatches of {} take {} at a time, which must divide it; "
      "nearest valid: {}{}",
      sequences, plural(replicas, "replica"), plural(micro_batch_size, "sequence"), each,
      below > 0 ? fmt::format("{} and ", below) : "", below + each));
}

}  // namespace pipesim
