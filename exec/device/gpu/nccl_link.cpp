// A link over NCCL: a communicator of two ranks and a stream for each channel, and one of all ranks
// of a group for sums, and for gathers. One operation per communicator at a time, each on its own
// stream: NCCL runs a stream's operations in order, and a posted receive blocks nothing else. That
// needs concurrent kernels, which NCCL does not guarantee, so kernels are kept small.
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/gpu/gpu_device.h"
#include "exec/device/gpu/memory.h"
#include "exec/device/gpu/nccl_communicator.h"
#include "exec/device/gpu/nccl_group.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

// A message in flight occupies this many multiprocessors, even while it waits; all together occupy
// at most half of them.
constexpr int max_blocks = 4;

int blocks_of(std::size_t channels) {
  int gpu = 0;
  gpuDeviceProp properties;
  check(gpuGetDevice(&gpu), "tell which GPU is chosen");
  check(gpuGetDeviceProperties(&properties, gpu), "tell what the GPU is");
  const int all = properties.multiProcessorCount / 2;
  return std::clamp(all / static_cast<int>(std::max<std::size_t>(channels, 1)), 1, max_blocks);
}

// How long the other end may take to disconnect.
constexpr std::chrono::seconds farewell(10);

using Time = std::chrono::steady_clock::time_point;

// One number on the device.
class Number32 {
 public:
  explicit Number32(Device& device) : device_(device), memory_(device.allocate(size)) {}
  Number32(const Number32&) = delete;
  Number32& operator=(const Number32&) = delete;
  ~Number32() { device_.release(memory_); }

  static constexpr std::int64_t size = sizeof(std::int32_t);
  void* memory() const { return memory_; }
  void set(std::int32_t number) { device_.upload(memory_, &number, size); }
  std::int32_t get() const {
    std::int32_t number = 0;
    device_.download(&number, memory_, size);
    return number;
  }

 private:
  Device& device_;
  void* memory_;
};

class NcclLink final : public DeviceLink {
 public:
  NcclLink(Device& device, const LinkSetup& setup)
      : nccl_(find_nccl()),
        device_(device),
        marks_(marks_of(device)),
        rank_(setup.rank),
        blocks_(blocks_of(setup.ends.size() + (setup.sums ? 1 : 0) + (setup.gathers ? 1 : 0))),
        patience_(setup.patience) {
    memory_of(device).keep_all();
    try {
      for (const LinkSetup::End& end : setup.ends) open(end);
      open(setup.sums, sums_);
      open(setup.gathers, gathers_);
    } catch (...) {
      abort();
      throw;
    }
  }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  ~NcclLink() override {
    if (std::uncaught_exceptions() > exceptions_) abort();
    take_leave();
  }

  Mark send(const Channel& channel, const void* from, std::int64_t bytes, Mark after) override {
    End& end = at(channel);
    const Stream& stream = end.communicator.stream();
    marks_.follow(stream, after);
    end.communicator.settle(nccl_.send(from, static_cast<std::size_t>(bytes), ncclInt8, end.other(),
                                       end.communicator.get(), stream.get()),
                            "send to");
    return marks_.set(stream);
  }

  Mark receive(const Channel& channel, void* to, std::int64_t bytes, Mark after) override {
    End& end = at(channel);
    const Stream& stream = end.communicator.stream();
    marks_.follow(stream, after);
    end.communicator.settle(nccl_.receive(to, static_cast<std::size_t>(bytes), ncclInt8,
                                          end.other(), end.communicator.get(), stream.get()),
                            "receive from");
    return marks_.set(stream);
  }

  DeviceGroup* sums() override { return sums_ ? &*sums_ : nullptr; }
  DeviceGroup* gathers() override { return gathers_ ? &*gathers_ : nullptr; }

  void check() override {
    for (const auto& end : ends_) end->communicator.state("keep the channel to");
    for (auto* group : {&sums_, &gathers_}) {
      if (*group) (*group)->communicator().state("keep the collectives of");
    }
  }

  void abort() override {
    for_each([](NcclCommunicator& communicator) { communicator.abort(); });
  }

 private:
  struct End {
    Channel channel;
    bool sends;
    NcclCommunicator communicator;

    // Within the communicator the sender is 0, the receiver 1.
    int own() const { return sends ? 0 : 1; }
    int other() const { return 1 - own(); }
  };

  End& at(const Channel& channel) {
    const auto found =
        std::find_if(ends_.begin(), ends_.end(),
                     [&](const std::unique_ptr<End>& end) { return end->channel == channel; });
    if (found == ends_.end()) {
      throw work_error("rank " + std::to_string(rank_) + " has no channel between ranks " +
                       std::to_string(channel.from) + " and " + std::to_string(channel.to));
    }
    return **found;
  }

  template <typename Work>
  void for_each(const Work& work) {
    for (const auto& end : ends_) work(end->communicator);
    for (auto* group : {&sums_, &gathers_}) {
      if (*group) work((*group)->communicator());
    }
  }

  // One after the other, each until a message has arrived: since all ranks keep to one order, both
  // ends of the first unopened channel are working on it. That message creates NCCL's own
  // connections, which a GPU might not be able to create while other messages wait.
  void open(const LinkSetup::End& wanted) {
    constexpr const char* what = "open the channel to";
    const bool sends = wanted.channel.from == rank_;
    const int peer = sends ? wanted.channel.to : wanted.channel.from;
    ends_.push_back(std::unique_ptr<End>(
        new End{wanted.channel, sends, {"rank " + std::to_string(peer), patience_}}));
    End& end = *ends_.back();
    end.communicator.open(wanted.key, 2, end.own(), blocks_, what);

    Number32 number(device_);
    number.set(sends ? rank_ : -1);
    const Mark start = device_.mark();
    const Mark done = sends ? send(wanted.channel, number.memory(), number.size, start)
                            : receive(wanted.channel, number.memory(), number.size, start);
    end.communicator.await([&] { return marks_.has_passed(done); }, what);
    if (number.get() != wanted.channel.from) {
      throw work_error(nccl_.name + " brought something else than rank " +
                       std::to_string(wanted.channel.from) + " sent to rank " +
                       std::to_string(wanted.channel.to) + "; use --transport mpi");
    }
  }

  void open(const std::optional<LinkSetup::Group>& wanted, std::optional<NcclGroup>& group) {
    if (!wanted) return;
    group.emplace(device_, *wanted, patience_);
    group->open(*wanted, blocks_);
  }

  // Both ends finish a communicator before either destroys it.
  void take_leave() {
    for_each([](NcclCommunicator& communicator) { communicator.finalize(); });
    const Time latest = std::chrono::steady_clock::now() + farewell;
    for_each([&](NcclCommunicator& communicator) { communicator.destroy(latest); });
  }

  const Nccl& nccl_;
  Device& device_;
  Marks& marks_;
  int rank_;
  int blocks_;
  std::optional<std::chrono::nanoseconds> patience_;
  int exceptions_ = std::uncaught_exceptions();
  std::vector<std::unique_ptr<End>> ends_;
  std::optional<NcclGroup> sums_, gathers_;
};

}  // namespace

std::unique_ptr<DeviceLink> make_nccl_link(Device& device, const LinkSetup& setup) {
  return std::make_unique<NcclLink>(device, setup);
}

}  // namespace pipesim::exec
