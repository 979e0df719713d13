#include "exec/device/gpu/nccl_sums.h"

#include <algorithm>
#include <string>

#include "exec/device/gpu/gpu_device.h"
#include "traces/base/error.h"

namespace pipesim::exec {

NcclSums::NcclSums(Device& device, const LinkSetup::Group& group,
                   std::optional<std::chrono::nanoseconds> patience)
    : nccl_(find_nccl()),
      device_(device),
      place_(group.place),
      communicator_(std::to_string(group.ranks) + " replicas", patience) {}

void NcclSums::open(const LinkSetup::Group& group, int blocks) {
  constexpr const char* what = "open the sums of";
  communicator_.open(group.key, group.ranks, group.place, blocks, what);
  auto* sum = static_cast<float*>(device_.allocate(sizeof(float)));
  device_.fill(1, sum, 1);
  const Mark done = all_reduce(sum, 1, device_.mark());
  communicator_.await([&] { return marks_of(device_).has_passed(done); }, what);
  float got = 0;
  device_.download(&got, sum, sizeof got);
  device_.release(sum);
  if (got != static_cast<float>(group.ranks)) {
    throw work_error(nccl_.name + " added " + std::to_string(group.ranks) + " ones up to " +
                     std::to_string(got) + "; use --reduce ordered");
  }
}

Mark NcclSums::all_reduce(float* numbers, std::int64_t count, Mark after) {
  const Stream& stream = communicator_.stream();
  marks_of(device_).follow(stream, after);
  communicator_.settle(nccl_.all_reduce(numbers, numbers, static_cast<std::size_t>(count),
                                        ncclFloat32, ncclSum, communicator_.get(), stream.get()),
                       "add up gradients of");
  return marks_of(device_).set(stream);
}

Mark NcclSums::reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts, Mark after) {
  const Stream& stream = communicator_.stream();
  marks_of(device_).follow(stream, after);
  const std::int64_t each = counts.front();
  const bool all_alike =
      std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) { return count == each; });
  communicator_.settle(all_alike ? nccl_.reduce_scatter(numbers, numbers + place_ * each,
                                                        static_cast<std::size_t>(each), ncclFloat32,
                                                        ncclSum, communicator_.get(), stream.get())
                                 : reduce_parts(numbers, counts),
                       "add up gradients of");
  return marks_of(device_).set(stream);
}

ncclResult_t NcclSums::reduce_parts(float* numbers, const std::vector<std::int64_t>& counts) {
  ncclResult_t result = nccl_.start_group();
  if (result != ncclSuccess) return result;
  for (std::size_t place = 0; place < counts.size(); ++place) {
    const auto count = static_cast<std::size_t>(counts[place]);
    if (count > 0 && (result == ncclSuccess || result == ncclInProgress)) {
      result = nccl_.reduce(numbers, numbers, count, ncclFloat32, ncclSum, static_cast<int>(place),
                            communicator_.get(), communicator_.stream().get());
    }
    numbers += count;
  }
  const ncclResult_t ended = nccl_.end_group();
  return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

}  // namespace pipesim::exec
