#include "exec/device/gpu/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "traces/base/error.h"

namespace pipesim::exec {

const GpuModule& load_gpu_module(const std::string& kind, const std::string& folder) {
  const std::string name = fmt::format("libpipesim_{}.so", kind);
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) {
    throw work_error(fmt::format("{} is not beside the program; build it where {} is installed",
                                 name, kind == "cuda" ? "CUDA's nvcc" : "HIP's hipcc"));
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw work_error(
        fmt::format("{} can't be loaded: {}; install what it needs, or name its "
                    "folder in LD_LIBRARY_PATH",
                    name, ::dlerror()));
  }
  const auto entry = reinterpret_cast<GpuEntry*>(::dlsym(library, gpu_entry_name));
  const GpuModule* module = entry != nullptr ? entry(PIPESIM_DEVICE_INTERFACE) : nullptr;
  if (module == nullptr) {
    throw work_error(
        fmt::format("{} is of another build than the program; build both together", name));
  }
  return *module;
}

std::string program_folder() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path().string();
}

}  // namespace pipesim::exec
