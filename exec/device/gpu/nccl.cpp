#include "exec/device/gpu/nccl.h"

#include <dlfcn.h>

#include <cstring>

#include "exec/device/peer_errors.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

// Found by the loader unless the build names another.
#if defined(PIPESIM_NCCL_LIBRARY)
constexpr const char* file_name = PIPESIM_NCCL_LIBRARY;
#elif defined(__HIP__) || defined(PIPESIM_GPU_HIP)
constexpr const char* file_name = "librccl.so.1";
#else
constexpr const char* file_name = "libnccl.so.2";
#endif
#if defined(__HIP__) || defined(PIPESIM_GPU_HIP)
constexpr const char* library_name = "RCCL";
#else
constexpr const char* library_name = "NCCL";
#endif

// The first with everything needed here, including configurations.
constexpr int min_version = 21700;

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return;
  throw work_error(std::string(library_name) + " has no " + name + "; install 2.17 or newer");
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Nccl load() {
  void* library = ::dlopen(file_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw work_error(std::string(library_name) + " can't be loaded: " + ::dlerror() +
                     "; install it, or name its folder in LD_LIBRARY_PATH");
  }
  Nccl nccl;
  find(library, "ncclGetVersion", nccl.version);
  find(library, "ncclGetUniqueId", nccl.unique_id);
  find(library, "ncclCommInitRankConfig", nccl.init);
  find(library, "ncclCommFinalize", nccl.finalize);
  find(library, "ncclCommDestroy", nccl.destroy);
  find(library, "ncclCommAbort", nccl.abort);
  find(library, "ncclCommGetAsyncError", nccl.state);
  find(library, "ncclGetErrorString", nccl.text);
  find(library, "ncclGetLastError", nccl.last_error);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.receive);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclReduceScatter", nccl.reduce_scatter);
  find(library, "ncclReduce", nccl.reduce);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclBroadcast", nccl.broadcast);
  find(library, "ncclGroupStart", nccl.start_group);
  find(library, "ncclGroupEnd", nccl.end_group);
  int version = 0;
  check(nccl, nccl.version(&version), nullptr, "tell its version");
  nccl.name = std::string(library_name) + " " + version_text(version);
  if (version < min_version) {
    throw work_error(nccl.name + " is too old; install 2.17 or newer");
  }
  return nccl;
}

class NcclLibrary final : public LinkLibrary {
 public:
  std::string name() const override { return find_nccl().name; }

  ChannelKey new_key() const override {
    const Nccl& nccl = find_nccl();
    ncclUniqueId id;
    check(nccl, nccl.unique_id(&id), nullptr, "name a channel");
    ChannelKey key;
    static_assert(sizeof id == sizeof key);
    std::memcpy(key.data(), &id, sizeof id);
    return key;
  }

  std::unique_ptr<DeviceLink> connect(Device& device, const LinkSetup& setup) const override {
    return make_nccl_link(device, setup);
  }
};

}  // namespace

const Nccl& find_nccl() {
  static const Nccl nccl = load();
  return nccl;
}

void check(const Nccl& nccl, ncclResult_t result, ncclComm_t communicator,
           const std::string& what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string said = nccl.text(result);
  const char* more = nccl.last_error(communicator);
  if (more != nullptr && *more != '\0') said += std::string(" (") + more + ")";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  const bool shared = said.find("Duplicate GPU") != std::string::npos;
  throw PeerLost((nccl.name.empty() ? library_name : nccl.name) + " could not " + what + ": " +
                 said + "; " +
                 (shared ? "ranks that share a GPU take --transport mpi"
                         : "run it again with NCCL_DEBUG=WARN to see more"));
}

const LinkLibrary& nccl_library() {
  static const NcclLibrary library;
  find_nccl();
  return library;
}

}  // namespace pipesim::exec
