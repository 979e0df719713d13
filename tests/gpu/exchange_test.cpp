// Exchanges on devices whose memory the host does not reach: emulated GPUs. (Ranks as
// processes of MPI run them, too: tests/mpi/link_test.cpp.)
#include "exec/run/exchange.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "exec/run/ranks.h"
#include "tests/devices.h"
#include "tests/transport_suite.h"

namespace pipesim {
namespace {

TEST(Exchange, PassesThroughTheHost) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::mutex mutex;
    std::vector<std::string> complaints;
    exec::run_as_threads(ranks, 4096, [&](exec::Transport& own) {
      const auto device = testing::make_test_device();
      EXPECT_FALSE(device->host_reaches_memory());
      const auto found = testing::check_exchanges(own, *device);
      const std::lock_guard lock(mutex);
      complaints.insert(complaints.end(), found.begin(), found.end());
    });
    EXPECT_EQ(complaints, std::vector<std::string>()) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace pipesim
