#include "exec/device/gpu/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

// The expected size of a library, from its header: linkers put the section table last. 0 if it is
// not a library, which the loader refuses itself.
std::uintmax_t whole_size(const std::filesystem::path& path) {
  Elf64_Ehdr header{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return 0;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return header.e_shoff + std::uintmax_t{header.e_shnum} * header.e_shentsize;
}

std::string file_name(const std::string& kind) { return fmt::format("libpipesim_{}.so", kind); }

}  // namespace

const GpuModule& load_gpu_module(const std::string& kind, const std::string& folder) {
  const std::string name = file_name(kind);
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) {
    throw work_error(fmt::format(
        "{} is neither next to the program nor in ../lib/pipesim; build it where {} is installed",
        name, kind == "cuda" ? "CUDA's nvcc" : "HIP's hipcc"));
  }
  // The loader would map the missing part, and crash when touching it.
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  if (!failed && size < whole_size(path)) {
    throw work_error(fmt::format("{} is incomplete: {} of {} bytes; build or copy it again", name,
                                 size, whole_size(path)));
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
        fmt::format("{} is from another build than the program; build both together", name));
  }
  return *module;
}

std::string module_folder(const std::string& kind) {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const auto installed = program.parent_path() / "lib" / "pipesim";
  const std::string name = file_name(kind);
  const bool is_installed = !std::filesystem::exists(program / name, failed) &&
                            std::filesystem::exists(installed / name, failed);
  return (is_installed ? installed : program).string();
}

}  // namespace pipesim::exec
