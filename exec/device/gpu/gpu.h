// The names of the GPU's runtime: CUDA's or HIP's under one set of names.
//
// Sources compiled by hipcc get HIP, all others CUDA; with PIPESIM_GPU_EMULATED
// an emulation with these names. Only the sources of the module
// (library.h) include this, and pipeexec itself links nothing of either.
#pragma once

#if defined(__HIP__) || defined(PIPESIM_GPU_HIP)

#include <hip/hip_runtime.h>

#define gpuDeviceProp hipDeviceProp_t
#define gpuError_t hipError_t
#define gpuErrorInsufficientDriver hipErrorInsufficientDriver
#define gpuErrorMemoryAllocation hipErrorOutOfMemory
#define gpuErrorNoDevice hipErrorNoDevice
#define gpuErrorNotReady hipErrorNotReady
#define gpuEvent_t hipEvent_t
#define gpuEventCreateWithFlags hipEventCreateWithFlags
#define gpuEventDestroy hipEventDestroy
#define gpuEventElapsedTime hipEventElapsedTime
#define gpuEventQuery hipEventQuery
#define gpuEventRecord hipEventRecord
#define gpuEventSynchronize hipEventSynchronize
#define gpuFree hipFree
#define gpuFuncAttributeMaxDynamicSharedMemorySize hipFuncAttributeMaxDynamicSharedMemorySize
#define gpuFuncSetAttribute hipFuncSetAttribute
#define gpuGetDevice hipGetDevice
#define gpuGetDeviceCount hipGetDeviceCount
#define gpuGetDeviceProperties hipGetDeviceProperties
#define gpuGetErrorName hipGetErrorName
#define gpuGetErrorString hipGetErrorString
#define gpuGetLastError hipGetLastError
#define gpuHostFree hipHostFree
#define gpuHostMalloc hipHostMalloc
#define gpuMalloc hipMalloc
#define gpuMemGetInfo hipMemGetInfo
#define gpuMemcpyAsync hipMemcpyAsync
#define gpuMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define gpuMemcpyDeviceToHost hipMemcpyDeviceToHost
#define gpuMemcpyHostToDevice hipMemcpyHostToDevice
#define gpuSetDevice hipSetDevice
#define gpuStream_t hipStream_t
#define gpuStreamCreateWithFlags hipStreamCreateWithFlags
#define gpuStreamDestroy hipStreamDestroy
#define gpuStreamNonBlocking hipStreamNonBlocking
#define gpuStreamSynchronize hipStreamSynchronize
#define gpuStreamWaitEvent hipStreamWaitEvent
#define gpuSuccess hipSuccess

namespace pipesim::exec {
inline constexpr const char* gpu_runtime = "HIP";
}

#elif defined(PIPESIM_GPU_EMULATED)

#include <emulated_gpu.h>

namespace pipesim::exec {
inline constexpr const char* gpu_runtime = "emulated CUDA";
}

#else

#include <cuda_runtime.h>

#define gpuDeviceProp cudaDeviceProp
#define gpuError_t cudaError_t
#define gpuErrorInsufficientDriver cudaErrorInsufficientDriver
#define gpuErrorMemoryAllocation cudaErrorMemoryAllocation
#define gpuErrorNoDevice cudaErrorNoDevice
#define gpuErrorNotReady cudaErrorNotReady
#define gpuEvent_t cudaEvent_t
#define gpuEventCreateWithFlags cudaEventCreateWithFlags
#define gpuEventDestroy cudaEventDestroy
#define gpuEventElapsedTime cudaEventElapsedTime
#define gpuEventQuery cudaEventQuery
#define gpuEventRecord cudaEventRecord
#define gpuEventSynchronize cudaEventSynchronize
#define gpuFree cudaFree
#define gpuFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define gpuFuncSetAttribute cudaFuncSetAttribute
#define gpuGetDevice cudaGetDevice
#define gpuGetDeviceCount cudaGetDeviceCount
#define gpuGetDeviceProperties cudaGetDeviceProperties
#define gpuGetErrorName cudaGetErrorName
#define gpuGetErrorString cudaGetErrorString
#define gpuGetLastError cudaGetLastError
#define gpuHostFree cudaFreeHost
#define gpuHostMalloc cudaMallocHost
#define gpuMalloc cudaMalloc
#define gpuMemGetInfo cudaMemGetInfo
#define gpuMemcpyAsync cudaMemcpyAsync
#define gpuMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define gpuMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define gpuMemcpyHostToDevice cudaMemcpyHostToDevice
#define gpuSetDevice cudaSetDevice
#define gpuStream_t cudaStream_t
#define gpuStreamCreateWithFlags cudaStreamCreateWithFlags
#define gpuStreamDestroy cudaStreamDestroy
#define gpuStreamNonBlocking cudaStreamNonBlocking
#define gpuStreamSynchronize cudaStreamSynchronize
#define gpuStreamWaitEvent cudaStreamWaitEvent
#define gpuSuccess cudaSuccess

namespace pipesim::exec {
inline constexpr const char* gpu_runtime = "CUDA";
}

#endif

namespace pipesim::exec {

// Throws a work error unless `result` is success; `what` is what could not be done: "count the
// GPUs".
void check(gpuError_t result, const char* what);

}  // namespace pipesim::exec
