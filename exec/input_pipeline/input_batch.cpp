#include "exec/input_pipeline/input_batch.h"

#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

std::int64_t InputBatch::bytes() const {
  auto bytes = static_cast<std::int64_t>((dense.size() + labels.size()) * sizeof(float));
  for (const IdLists& lists : ids) bytes += lists.bytes();
  return bytes;
}

InputBatch read_batch(const BatchSource& source, std::int64_t batch, std::int64_t batch_size,
                      int rank, int ranks) {
  return source.read((batch * ranks + rank) * batch_size, batch_size);
}

BatchShare share_of(const BatchSource& source, std::int64_t batch_size, int ranks) {
  const std::int64_t samples = source.samples().value();
  const std::int64_t of_all = batch_size * ranks;
  const BatchShare share = {samples / of_all, samples % of_all};
  if (share.batches == 0) {
    throw input_error(fmt::format(
        "{}: there is no batch of {} for each of {} in {}; take more samples or smaller batches",
        source.name(), plural(batch_size, "sample"), plural(ranks, "rank"), format_count(samples)));
  }
  return share;
}

std::string left_out_note(const BatchSource& source, std::int64_t batch_size, int ranks) {
  const BatchShare share = share_of(source, batch_size, ranks);
  if (share.left_out == 0) return {};
  return fmt::format(
      "{}: the last {} of {} left out: no batch of {} for each of {} is left", source.name(),
      format_count(share.left_out),
      plural(source.samples().value(), "sample") + (share.left_out == 1 ? " is" : " are"),
      format_count(batch_size), plural(ranks, "rank"));
}

void check_batches(const BatchSource& source, std::int64_t batches, std::int64_t batch_size,
                   int ranks) {
  if (!source.samples()) return;
  const std::int64_t there = share_of(source, batch_size, ranks).batches;
  if (batches <= there) return;
  throw input_error(fmt::format(
      "{}: {} make {} of {} for each of {}, not {}; take fewer batches, or smaller ones",
      source.name(), plural(source.samples().value(), "sample"), plural(there, "batch", "batches"),
      format_count(batch_size), plural(ranks, "rank"), format_count(batches)));
}

}  // namespace pipesim::exec
