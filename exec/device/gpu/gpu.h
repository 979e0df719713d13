// The names of the GPU's runtime: CUDA's or HIP's under one set of names.
//
// What is compiled by hipcc gets HIP, all else CUDA. Only the sources of the
// module (library.h) include this, and pipeexec itself links nothing of either.
#pragma once

#if defined(__HIP__) || defined(PIPESIM_GPU_HIP)

#include <hip/hip_runtime.h>

#define gpuDeviceProp hipDeviceProp_t
#define gpuError_t hipError_t
#define gpuErrorMemoryAllocation hipErrorOutOfMemory
#define gpuErrorNoDevice hipErrorNoDevice
#define gpuErrorInsufficientDriver hipErrorInsufficientDriver
#define gpuFree hipFree
#define gpuGetDeviceCount hipGetDeviceCount
#define gpuGetDeviceProperties hipGetDeviceProperties
#define gpuGetErrorName hipGetErrorName
#define gpuGetErrorString hipGetErrorString
#define gpuGetLastError hipGetLastError
#define gpuMalloc hipMalloc
#define gpuMemcpyAsync hipMemcpyAsync
#define gpuMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define gpuMemcpyDeviceToHost hipMemcpyDeviceToHost
#define gpuMemcpyHostToDevice hipMemcpyHostToDevice
#define gpuMemsetAsync hipMemsetAsync
#define gpuSetDevice hipSetDevice
#define gpuStreamCreateWithFlags hipStreamCreateWithFlags
#define gpuStreamDestroy hipStreamDestroy
#define gpuStreamNonBlocking hipStreamNonBlocking
#define gpuStreamSynchronize hipStreamSynchronize
#define gpuStream_t hipStream_t
#define gpuSuccess hipSuccess

namespace pipesim::exec {
inline constexpr const char* gpu_runtime = "HIP";
}

#else

#include <cuda_runtime.h>

#define gpuDeviceProp cudaDeviceProp
#define gpuError_t cudaError_t
#define gpuErrorMemoryAllocation cudaErrorMemoryAllocation
#define gpuErrorNoDevice cudaErrorNoDevice
#define gpuErrorInsufficientDriver cudaErrorInsufficientDriver
#define gpuFree cudaFree
#define gpuGetDeviceCount cudaGetDeviceCount
#define gpuGetDeviceProperties cudaGetDeviceProperties
#define gpuGetErrorName cudaGetErrorName
#define gpuGetErrorString cudaGetErrorString
#define gpuGetLastError cudaGetLastError
#define gpuMalloc cudaMalloc
#define gpuMemcpyAsync cudaMemcpyAsync
#define gpuMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define gpuMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define gpuMemcpyHostToDevice cudaMemcpyHostToDevice
#define gpuMemsetAsync cudaMemsetAsync
#define gpuSetDevice cudaSetDevice
#define gpuStreamCreateWithFlags cudaStreamCreateWithFlags
#define gpuStreamDestroy cudaStreamDestroy
#define gpuStreamNonBlocking cudaStreamNonBlocking
#define gpuStreamSynchronize cudaStreamSynchronize
#define gpuStream_t cudaStream_t
#define gpuSuccess cudaSuccess

namespace pipesim::exec {
inline constexpr const char* gpu_runtime = "CUDA";
}

#endif

namespace pipesim::exec {

// Unless it went well, a work error that says what could not be done: "count the GPUs".
void check(gpuError_t result, const char* what);

}  // namespace pipesim::exec
