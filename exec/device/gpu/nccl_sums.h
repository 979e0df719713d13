// Sums of NCCL's: a communicator of all ranks of a group.
#pragma once

#include <vector>

#include "exec/device/gpu/nccl_communicator.h"
#include "exec/device/link.h"

namespace pipesim::exec {

class NcclSums final : public DeviceSums {
 public:
  NcclSums(Device& device, const LinkSetup::Group& group,
           std::optional<std::chrono::nanoseconds> patience);

  // Up to a first sum, which makes NCCL's own connections.
  void open(const LinkSetup::Group& group, int blocks);
  NcclCommunicator& communicator() { return communicator_; }

  Mark reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts, Mark after) override;
  Mark all_reduce(float* numbers, std::int64_t count, Mark after) override;

 private:
  // NCCL's own wants as many numbers of each rank; without, each part is a sum of its own.
  ncclResult_t reduce_parts(float* numbers, const std::vector<std::int64_t>& counts);

  const Nccl& nccl_;
  Device& device_;
  int place_;
  NcclCommunicator communicator_;
};

}  // namespace pipesim::exec
