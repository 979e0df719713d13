// The problem that the benchmarks share: 1F1B, F = 1 ms, B = 2 ms, 45 us per hop.
#pragma once

#include "sim/cost/costs.h"
#include "sim/schedule/family.h"

namespace pipesim::bench {

inline Schedule one_f_one_b(int ranks, int microbatches) {
  return generate({"1f1b", ranks, microbatches});
}

inline Costs costs_of(int stages) {
  StageCosts stage;
  stage.forward_ns = 1'000'000;
  stage.split_backward(2'000'000);
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), stage);
  costs.p2p.latency_ns = 45'000;
  return costs;
}

}  // namespace pipesim::bench
