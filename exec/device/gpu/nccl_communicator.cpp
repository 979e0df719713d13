#include "exec/device/gpu/nccl_communicator.h"

#include <cstring>
#include <thread>
#include <utility>

#include "exec/device/peer_errors.h"

namespace pipesim::exec {

using Time = std::chrono::steady_clock::time_point;

NcclCommunicator::NcclCommunicator(std::string with,
                                   std::optional<std::chrono::nanoseconds> patience)
    : nccl_(find_nccl()), with_(std::move(with)), patience_(patience) {}

void NcclCommunicator::open(const ChannelKey& key, int ranks, int rank, int blocks,
                            const char* what) {
  ncclUniqueId id;
  std::memcpy(&id, key.data(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = blocks;
  settle(nccl_.init(&communicator_, ranks, id, rank, &config), what);
}

ncclResult_t NcclCommunicator::state(const char* what) const {
  if (communicator_ == nullptr) return ncclSuccess;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_.state(communicator_, &state);
  for (const ncclResult_t result : {asked, state}) {
    if (result == ncclSuccess || result == ncclInProgress) continue;
    check(nccl_, result, communicator_, std::string(what) + " " + with_);
  }
  return state;
}

void NcclCommunicator::settle(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  check(nccl_, result, communicator_, std::string(what) + " " + with_);
  await([&] { return state(what) != ncclInProgress; }, what);
}

void NcclCommunicator::await(const std::function<bool()>& done, const char* what) {
  const Time start = std::chrono::steady_clock::now();
  while (!done()) {
    state(what);
    if (patience_ && std::chrono::steady_clock::now() - start > *patience_) {
      throw TimedOut(nccl_.name + " could not " + what + " " + with_ + " within --timeout");
    }
    std::this_thread::yield();
  }
}

void NcclCommunicator::abort() {
  ncclComm_t communicator = std::exchange(communicator_, nullptr);
  if (communicator != nullptr) static_cast<void>(nccl_.abort(communicator));
}

void NcclCommunicator::finalize() {
  if (communicator_ != nullptr) static_cast<void>(nccl_.finalize(communicator_));
}

void NcclCommunicator::destroy(Time latest) {
  if (communicator_ == nullptr) return;
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress && std::chrono::steady_clock::now() < latest) {
    if (nccl_.state(communicator_, &state) != ncclSuccess) break;
  }
  const auto take_down = state == ncclSuccess ? nccl_.destroy : nccl_.abort;
  static_cast<void>(take_down(std::exchange(communicator_, nullptr)));
}

}  // namespace pipesim::exec
