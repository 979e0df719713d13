#include "exec/run/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "sim/schedule/csv.h"

namespace pipesim::exec {

int Training::first_layer(int stage) const {
  return std::accumulate(layout.begin(), layout.begin() + stage, 0);
}

std::string Training::fingerprint() const {
  return fmt::format(
      "{}\n{}\nlayout {}\ntext {} {}\nbatch {} x {}, {} + {} iterations, seed {}, "
      "learning rate {}, recompute {}, verify {}, details {}",
      to_csv(program), to_json(model), fmt::join(layout, ","), text.bytes().size(),
      std::hash<std::string_view>()(text.bytes()), micro_batch_size, sequence_length, warmup,
      iterations, seed, learning_rate, recompute, verify, record_details);
}

}  // namespace pipesim::exec
