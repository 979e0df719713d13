#include "exec/device/gpu/nccl_group.h"

#include <algorithm>
#include <string>

#include "exec/device/gpu/gpu_device.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

bool all_alike(const std::vector<std::int64_t>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(),
                     [&](std::int64_t size) { return size == sizes.front(); });
}

}  // namespace

NcclGroup::NcclGroup(Device& device, const LinkSetup::Group& group,
                     std::optional<std::chrono::nanoseconds> patience)
    : nccl_(find_nccl()),
      device_(device),
      place_(group.place),
      communicator_(std::to_string(group.ranks) + " replicas", patience) {}

void NcclGroup::open(const LinkSetup::Group& group, int blocks) {
  constexpr const char* what = "open the collectives of";
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
                     std::to_string(got) + "; use --transport mpi");
  }
}

Mark NcclGroup::all_reduce(float* numbers, std::int64_t count, Mark after) {
  const Stream& stream = communicator_.stream();
  marks_of(device_).follow(stream, after);
  communicator_.settle(nccl_.all_reduce(numbers, numbers, static_cast<std::size_t>(count),
                                        ncclFloat32, ncclSum, communicator_.get(), stream.get()),
                       "add up gradients of");
  return marks_of(device_).set(stream);
}

Mark NcclGroup::reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts,
                               Mark after) {
  const Stream& stream = communicator_.stream();
  marks_of(device_).follow(stream, after);
  const std::int64_t each = counts.front();
  communicator_.settle(
      all_alike(counts)
          ? nccl_.reduce_scatter(numbers, numbers + place_ * each, static_cast<std::size_t>(each),
                                 ncclFloat32, ncclSum, communicator_.get(), stream.get())
          : by_part(counts,
                    [&](int place, std::int64_t begin, std::size_t count) {
                      return nccl_.reduce(numbers + begin, numbers + begin, count, ncclFloat32,
                                          ncclSum, place, communicator_.get(), stream.get());
                    }),
      "add up gradients of");
  return marks_of(device_).set(stream);
}

Mark NcclGroup::all_gather(void* memory, const std::vector<std::int64_t>& bytes, Mark after) {
  const Stream& stream = communicator_.stream();
  marks_of(device_).follow(stream, after);
  auto* all = static_cast<char*>(memory);
  const std::int64_t each = bytes.front();
  communicator_.settle(
      all_alike(bytes) ? nccl_.all_gather(all + place_ * each, all, static_cast<std::size_t>(each),
                                          ncclInt8, communicator_.get(), stream.get())
                       : by_part(bytes,
                                 [&](int place, std::int64_t begin, std::size_t count) {
                                   return nccl_.broadcast(all + begin, all + begin, count, ncclInt8,
                                                          place, communicator_.get(), stream.get());
                                 }),
      "gather weights of");
  return marks_of(device_).set(stream);
}

template <typename Call>
ncclResult_t NcclGroup::by_part(const std::vector<std::int64_t>& sizes, const Call& call) {
  ncclResult_t result = nccl_.start_group();
  if (result != ncclSuccess) return result;
  std::int64_t begin = 0;
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    if (sizes[place] > 0 && (result == ncclSuccess || result == ncclInProgress)) {
      result = call(static_cast<int>(place), begin, static_cast<std::size_t>(sizes[place]));
    }
    begin += sizes[place];
  }
  const ncclResult_t ended = nccl_.end_group();
  return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

}  // namespace pipesim::exec
