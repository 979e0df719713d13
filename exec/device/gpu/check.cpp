#include <string>

#include "exec/device/gpu/gpu.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

const char* remedy(gpuError_t result) {
  switch (result) {
    case gpuErrorMemoryAllocation:
      return "take a smaller model, smaller microbatches or fewer ranks per GPU";
    case gpuErrorNoDevice: return "is there a GPU, and may this process see it?";
    case gpuErrorInsufficientDriver: return "install the GPU's driver, or a newer one";
    default: return "run it again under the vendor's memory checker to see which kernel it was";
  }
}

}  // namespace

void check(gpuError_t result, const char* what) {
  if (result == gpuSuccess) return;
  const std::string name = gpuGetErrorName(result);
  const std::string text = gpuGetErrorString(result);
  throw work_error(std::string(gpu_runtime) + " could not " + what + ": " + text +
                   (text == name ? "" : " (" + name + ")") + "; " + remedy(result));
}

}  // namespace pipesim::exec
