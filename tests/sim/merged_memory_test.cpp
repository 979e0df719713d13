#include "sim/engine/merged_memory.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

// At the instant at which the next iteration begins, what that sends is not the first one's.
TEST(MergedMemory, TheFirstIterationEndsBeforeWhatTheNextOneSends) {
  StageFootprint footprint;
  footprint.forward_output_bytes = 3;
  footprint.backward_output_bytes = 5;
  const Action forward = make_action(0, Kind::F, 0);
  const Action backward = make_action(0, Kind::B, 0);
  MergedMemory memory;
  memory.add_compute({0, forward, false});
  memory.add_compute({1, forward, true});
  memory.add_transfer({1, make_action(0, Kind::SEND_F, 0), true, 0});
  memory.add_compute({1, backward, false});
  memory.add_compute({10, backward, true});
  memory.add_transfer({20, make_action(0, Kind::SEND_B, 0), true, 0});
  memory.begin_iteration(1, 10);
  memory.add_compute({10, forward, false});
  memory.add_compute({10, forward, true});
  memory.add_transfer({10, make_action(0, Kind::SEND_F, 0), true, 1});
  RankMetrics metrics;
  memory.finish({footprint}, metrics);
  EXPECT_EQ(metrics.peak_memory.total, 5);
  EXPECT_EQ(metrics.peak_memory.time_ns, 10);
}

}  // namespace
}  // namespace pipesim
