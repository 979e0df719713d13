// A GPU module of another build: it knows no interface that it is asked for.
#include "exec/device/gpu/library.h"

extern "C" const pipesim::exec::GpuModule* pipesim_gpu_module(const char* interface) {
  static_cast<void>(interface);
  return nullptr;
}
