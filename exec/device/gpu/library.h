// The module with the code for GPUs of one kind, loaded on demand,
// so one program runs on machines with and without GPUs and drivers.
//
// The module is a file, libpipesim_cuda.so or libpipesim_hip.so, with one function. It
// stays loaded until the program ends.
// Any thread may call what is declared here; devices belong to their ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/link.h"

namespace pipesim::exec {

struct GpuOptions {
  int gpu = 0;                // below the number of gpus()
  bool own_products = false;  // always use the built-in GEMM
  bool tensor_cores = true;   // for attention in bfloat16, if the GPU has them
};

class GpuModule {
 public:
  virtual ~GpuModule() = default;
  // Name, memory and compute capability of each. Throws a work error if there is no driver, or it
  // fails, or if there are no GPUs.
  virtual std::vector<std::string> gpus() const = 0;
  // Call on the thread that will use it.
  virtual std::unique_ptr<Device> make(const GpuOptions& options) const = 0;
  // The links of those devices; throws a work error if there are none. Does not access GPUs or
  // their driver.
  virtual const LinkLibrary& links() const = 0;
};

// The module's function: null unless it was compiled with the same headers,
// which `interface` stands for.
extern "C" {
using GpuEntry = const GpuModule*(const char* interface);
}
inline constexpr const char* gpu_entry_name = "pipesim_gpu_module";

// The module for `kind`, cuda or hip, from that folder. Throws a work error if it is missing, can't
// be loaded, or is from another build.
const GpuModule& load_gpu_module(const std::string& kind, const std::string& folder);

// The folder of the module for `kind`: that of the running program, as built, or else
// ../lib/pipesim from there, as installed.
std::string module_folder(const std::string& kind);

}  // namespace pipesim::exec
