// NCCL collectives: a communicator of all ranks of a group.
#pragma once

#include <vector>

#include "exec/device/gpu/nccl_communicator.h"
#include "exec/device/link.h"

namespace pipesim::exec {

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(Device& device, const LinkSetup::Group& group,
            std::optional<std::chrono::nanoseconds> patience);

  // Opens it, with a first sum, which creates NCCL's own connections.
  void open(const LinkSetup::Group& group, int blocks);
  NcclCommunicator& communicator() { return communicator_; }

  Mark reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts, Mark after) override;
  Mark all_reduce(float* numbers, std::int64_t count, Mark after) override;
  Mark all_gather(void* memory, const std::vector<std::int64_t>& bytes, Mark after) override;

 private:
  // NCCL's own calls need equal parts; for others each part is a separate call, all in one group.
  template <typename Call>
  ncclResult_t by_part(const std::vector<std::int64_t>& sizes, const Call& call);

  const Nccl& nccl_;
  Device& device_;
  int place_;
  NcclCommunicator communicator_;
};

}  // namespace pipesim::exec
