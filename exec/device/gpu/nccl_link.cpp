// A link of NCCL's: a communicator of two ranks and a stream for each channel.
//
// One operation of a communicator at a time, and each on a stream of its own:
// NCCL runs what stands on one in its order, and a posted receive holds up
// nothing else. That takes kernels that run side by side: NCCL promises it for
// none, so that they are kept small. Communicators don't block: what NCCL does
// for one in the background is polled for, with patience.
#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "exec/device/gpu/gpu_device.h"
#include "exec/device/gpu/memory.h"
#include "exec/device/gpu/nccl.h"
#include "exec/device/gpu/streams.h"
#include "exec/device/peer_errors.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

// A message that is under way holds so many multiprocessors, also while it waits;
// all together hold half of them at most.
constexpr int most_blocks = 4;

int blocks_of(std::size_t channels) {
  int gpu = 0;
  gpuDeviceProp properties;
  check(gpuGetDevice(&gpu), "tell which GPU is chosen");
  check(gpuGetDeviceProperties(&properties, gpu), "tell what the GPU is");
  const int all = properties.multiProcessorCount / 2;
  return std::clamp(all / static_cast<int>(std::max<std::size_t>(channels, 1)), 1, most_blocks);
}

// How long the other end may take to take leave.
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
        blocks_(blocks_of(setup.ends.size())),
        patience_(setup.patience) {
    memory_of(device).keep_all();
    try {
      for (const LinkSetup::End& end : setup.ends) open(end);
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
    marks_.follow(end.stream, after);
    settle(end,
           nccl_.send(from, static_cast<std::size_t>(bytes), ncclInt8, end.other(),
                      end.communicator, end.stream.get()),
           "send to");
    return marks_.set(end.stream);
  }

  Mark receive(const Channel& channel, void* to, std::int64_t bytes, Mark after) override {
    End& end = at(channel);
    marks_.follow(end.stream, after);
    settle(end,
           nccl_.receive(to, static_cast<std::size_t>(bytes), ncclInt8, end.other(),
                         end.communicator, end.stream.get()),
           "receive from");
    return marks_.set(end.stream);
  }

  void check() override {
    for (const auto& end : ends_) state_of(*end, "keep the channel to");
  }

  void abort() override {
    for (const auto& end : ends_) {
      ncclComm_t communicator = std::exchange(end->communicator, nullptr);
      if (communicator != nullptr) static_cast<void>(nccl_.abort(communicator));
    }
  }

 private:
  struct End {
    Channel channel;
    bool sends = false;
    int peer = 0;  // its rank
    ncclComm_t communicator = nullptr;
    Stream stream;

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

  // One after the other, each up to a message that has arrived: as all ranks
  // keep to one order, the first channel that isn't open has both its ends at
  // it. That message makes NCCL's own connections, which a GPU might not be able
  // to make while other messages wait.
  void open(const LinkSetup::End& wanted) {
    ends_.push_back(std::make_unique<End>());
    End& end = *ends_.back();
    end.channel = wanted.channel;
    end.sends = wanted.channel.from == rank_;
    end.peer = end.sends ? wanted.channel.to : wanted.channel.from;
    ncclUniqueId id;
    std::memcpy(&id, wanted.key.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = blocks_;
    settle(end, nccl_.init(&end.communicator, 2, id, end.own(), &config), "open the channel to");

    Number32 number(device_);
    number.set(end.sends ? rank_ : -1);
    const Mark start = device_.mark();
    const Mark done = end.sends ? send(wanted.channel, number.memory(), number.size, start)
                                : receive(wanted.channel, number.memory(), number.size, start);
    await(
        end, [&] { return marks_.has_passed(done); }, "open the channel to");
    if (number.get() != wanted.channel.from) {
      throw work_error(nccl_.name + " brought something else than rank " +
                       std::to_string(wanted.channel.from) + " sent to rank " +
                       std::to_string(wanted.channel.to) + "; use --transport mpi");
    }
  }

  ncclResult_t state_of(const End& end, const char* what) {
    if (end.communicator == nullptr) return ncclSuccess;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_.state(end.communicator, &state);
    const std::string whole = std::string(what) + " rank " + std::to_string(end.peer);
    exec::check(nccl_, asked, end.communicator, whole);
    exec::check(nccl_, state, end.communicator, whole);
    return state;
  }

  // Until what was asked for is on its stream.
  void settle(const End& end, ncclResult_t result, const char* what) {
    exec::check(nccl_, result, end.communicator,
                std::string(what) + " rank " + std::to_string(end.peer));
    if (result != ncclInProgress) return;
    await(
        end, [&] { return state_of(end, what) != ncclInProgress; }, what);
  }

  void await(const End& end, const std::function<bool()>& done, const char* what) {
    const Time start = std::chrono::steady_clock::now();
    while (!done()) {
      state_of(end, what);
      if (patience_ && std::chrono::steady_clock::now() - start > *patience_) {
        throw TimedOut(nccl_.name + " could not " + what + " rank " + std::to_string(end.peer) +
                       " within --timeout");
      }
      std::this_thread::yield();
    }
  }

  // Both ends finish a communicator before either destroys it.
  void take_leave() {
    for (const auto& end : ends_) {
      if (end->communicator != nullptr) static_cast<void>(nccl_.finalize(end->communicator));
    }
    const Time latest = std::chrono::steady_clock::now() + farewell;
    for (const auto& end : ends_) {
      if (end->communicator == nullptr) continue;
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress && std::chrono::steady_clock::now() < latest) {
        if (nccl_.state(end->communicator, &state) != ncclSuccess) break;
      }
      const auto take_down = state == ncclSuccess ? nccl_.destroy : nccl_.abort;
      static_cast<void>(take_down(std::exchange(end->communicator, nullptr)));
    }
  }

  const Nccl& nccl_;
  Device& device_;
  Marks& marks_;
  int rank_;
  int blocks_;
  std::optional<std::chrono::nanoseconds> patience_;
  int exceptions_ = std::uncaught_exceptions();
  std::vector<std::unique_ptr<End>> ends_;
};

}  // namespace

std::unique_ptr<DeviceLink> make_nccl_link(Device& device, const LinkSetup& setup) {
  return std::make_unique<NcclLink>(device, setup);
}

}  // namespace pipesim::exec
