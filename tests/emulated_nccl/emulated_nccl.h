// NCCL between emulated GPUs (tests/emulated_gpu) of several processes, so that
// links are tested on any machine.
//
// exec/device/gpu/nccl.h finds NCCL's names here when PIPESIM_GPU_EMULATED is
// defined. They mean what NCCL's mean, for what the project calls: transfers in communicators
// of one or two ranks, and collectives. What NCCL leaves undefined is an error here, or goes wrong:
//
// - A transfer runs in the order of its stream, and ends only once the other
//   end is there. Until then nothing of a send is read, and what is received
//   into is all 0xFF. Another number of bytes fails both communicators.
// - Where a communicator does not block, it is made in the background, and so is
//   the connection that the first transfer each way needs, for which both ends
//   must ask. A call on one that is still in progress is refused.
// - Sums are added from the last rank down. Collectives run like transfers: what is given is read
//   when the stream is there, and what is taken is all 0xFF until all ranks are; with other sizes,
//   kinds or roots on some ranks the communicator fails. What is given and what is taken may have
//   memory in common only as NCCL has it in place.
// - A transfer to oneself needs its other end within the same group.
// - Once the other process is gone, a communicator reports it after a while.
//
// The process that names a communicator must be its rank 0. Environment:
//   PIPESIM_EMULATED_NCCL_SAME_GPU=1    all processes are on one GPU, which is refused
//   PIPESIM_EMULATED_NCCL_FAULT=KIND:N  at the N-th transfer or collective that this process asks
//     for: `lose` it for good, `fail` its communicator, or `kill` or `stop` the process
#pragma once

#include <emulated_gpu.h>

#include <climits>
#include <cstddef>

// As in NCCL, each value has its number.
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t : int { ncclInt8 = 0, ncclFloat32 = 7 };
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1 };

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  std::size_t size;
  int blocking;
  int maxCTAs;
};
#define NCCL_CONFIG_INITIALIZER \
  { sizeof(ncclConfig_t), INT_MIN, INT_MIN }

extern "C" {
ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t communicator);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state);
const char* ncclGetErrorString(ncclResult_t result);
// Of the process's last failure; the argument means nothing, as in NCCL.
const char* ncclGetLastError(ncclComm_t communicator);
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, gpuStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, gpuStream_t stream);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, gpuStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t communicator, gpuStream_t stream);
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t communicator,
                        gpuStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, gpuStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, gpuStream_t stream);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
}
