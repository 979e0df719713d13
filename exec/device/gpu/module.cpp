// The module's exports: the list of GPUs, and their devices.
#include <cstdio>
#include <cstring>

#include "exec/device/gpu/gpu.h"
#include "exec/device/gpu/gpu_device.h"
#ifdef PIPESIM_HAS_NCCL
#include "exec/device/gpu/nccl.h"
#endif
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

class Module final : public GpuModule {
 public:
  std::vector<std::string> gpus() const override {
    int count = 0;
    check(gpuGetDeviceCount(&count), "count the GPUs");
    check(count > 0 ? gpuSuccess : gpuErrorNoDevice, "count the GPUs");
    std::vector<std::string> all;
    for (int gpu = 0; gpu < count; ++gpu) {
      gpuDeviceProp properties;
      check(gpuGetDeviceProperties(&properties, gpu), "tell what a GPU is");
      char memory[80];
      std::snprintf(memory, sizeof memory, ", %.1f GiB, compute capability %d.%d",
                    static_cast<double>(properties.totalGlobalMem) / (1 << 30), properties.major,
                    properties.minor);
      all.push_back(properties.name + std::string(memory));
    }
    return all;
  }

  std::unique_ptr<Device> make(const GpuOptions& options) const override {
    return make_gpu_device(options);
  }

  const LinkLibrary& links() const override {
#ifdef PIPESIM_HAS_NCCL
    return nccl_library();
#else
    throw work_error(std::string("this build of the module for ") + gpu_runtime +
                     " has neither NCCL nor RCCL: install it with its header, and build again");
#endif
  }
};

}  // namespace
}  // namespace pipesim::exec

extern "C" __attribute__((visibility("default"))) const pipesim::exec::GpuModule*
pipesim_gpu_module(const char* interface) {
  static const pipesim::exec::Module module;
  return std::strcmp(interface, PIPESIM_DEVICE_INTERFACE) == 0 ? &module : nullptr;
}
