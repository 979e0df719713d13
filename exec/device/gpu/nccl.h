// NCCL, or AMD's RCCL, which has the same names; found on demand, so
// a module loads if neither is installed.
#pragma once

#if defined(__HIP__) || defined(PIPESIM_GPU_HIP)
#include <rccl/rccl.h>
#elif defined(PIPESIM_GPU_EMULATED)
#include <emulated_nccl.h>
#else
#include <nccl.h>
#endif

#include <string>

#include "exec/device/link.h"

namespace pipesim::exec {

// The functions of the loaded library.
struct Nccl {
  std::string name;  // "NCCL 2.28.9"

  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) state = nullptr;
  decltype(&ncclGetErrorString) text = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclGroupStart) start_group = nullptr;
  decltype(&ncclGroupEnd) end_group = nullptr;
};

// Loads it, once per process; throws a work error if it is missing or too old.
const Nccl& find_nccl();

// Throws PeerLost unless `result` is success or in progress: "NCCL could not open the channel to
// rank 1: ...".
void check(const Nccl& nccl, ncclResult_t result, ncclComm_t communicator, const std::string& what);

// Throws as find_nccl() does.
const LinkLibrary& nccl_library();
std::unique_ptr<DeviceLink> make_nccl_link(Device& device, const LinkSetup& setup);

}  // namespace pipesim::exec
