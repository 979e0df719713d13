// An NCCL communicator with a stream for its operations, which run in order.
//
// It doesn't block: NCCL's background work is polled, up to the timeout. Errors
// say what failed: "NCCL 2.28.9 could not send to rank 1: ...". One device, one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "exec/device/gpu/nccl.h"
#include "exec/device/gpu/streams.h"

namespace pipesim::exec {

class NcclCommunicator {
 public:
  // `with` names the others: "rank 1". It is opened later.
  NcclCommunicator(std::string with, std::optional<std::chrono::nanoseconds> patience);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Waits until all its ranks are connected. An operation takes at most `blocks` multiprocessors.
  void open(const ChannelKey& key, int ranks, int rank, int blocks, const char* what);
  // Waits until the operation is on its stream.
  void settle(ncclResult_t result, const char* what);
  void await(const std::function<bool()>& done, const char* what);
  // Whether it is in progress; throws PeerLost if it has failed.
  ncclResult_t state(const char* what) const;

  // Ends all operations. Neither this nor later calls throw.
  void abort();
  // Both ends must finalize a communicator before either destroys it: finalize all first.
  void finalize();
  void destroy(std::chrono::steady_clock::time_point latest);

  ncclComm_t get() const { return communicator_; }
  const Stream& stream() const { return stream_; }

 private:
  const Nccl& nccl_;
  std::string with_;
  std::optional<std::chrono::nanoseconds> patience_;
  ncclComm_t communicator_ = nullptr;
  Stream stream_;
};

}  // namespace pipesim::exec
