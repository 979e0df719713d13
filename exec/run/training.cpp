#include "exec/run/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "sim/schedule/csv.h"

namespace pipesim::exec {

int Training::first_layer(int stage) const {
  return std::accumulate(layout.begin(), layout.begin() + stage, 0);
}

std::vector<std::int64_t> Training::message_bytes() const {
  const std::int64_t bytes = rows() * model.hidden_size * static_cast<std::int64_t>(sizeof(float));
  return std::vector<std::int64_t>(static_cast<std::size_t>(program.stages()), bytes);
}

std::string Training::fingerprint() const {
  std::size_t rows = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    rows = 31 * rows + std::hash<std::string>()(csv_row(program.actions[rank]));
  }
  return fmt::format(
      "program of {} ranks {:x}, model {}, layout {}, text of {} bytes {:x}, {} microbatches of {} "
      "x "
      "{} tokens, {} + {} iterations, seed {}, learning rate {}, recompute {}, verify {}, details "
      "{}",
      program.ranks(), rows, to_json(model), fmt::join(layout, ","), text.bytes().size(),
      std::hash<std::string_view>()(text.bytes()), program.microbatches, micro_batch_size,
      sequence_length, warmup, iterations, seed, learning_rate, recompute, verify, record_details);
}

}  // namespace pipesim::exec
