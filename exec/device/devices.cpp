#include "exec/device/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "exec/device/cpu/cpu_device.h"
#include "exec/device/gpu/library.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

const std::vector<std::string> gpu_kinds{"cuda", "hip"};

std::string kind_of(const std::string& name) { return name.substr(0, name.find(':')); }

// The kind of GPUs that a transport links.
std::string linked_kind(const std::string& transport) {
  return transport == "nccl" ? "cuda" : "hip";
}

// The GPUs of a kind, or why there are none.
struct Gpus {
  const GpuModule* module = nullptr;
  std::vector<std::string> descriptions;
  std::string left_out;
};

Gpus find_gpus(const std::string& kind) {
  Gpus gpus;
  try {
    gpus.module = &load_gpu_module(kind, module_folder(kind));
    gpus.descriptions = gpus.module->gpus();
  } catch (const Error& error) {
    gpus.left_out = error.what();
  }
  return gpus;
}

std::string those_there() {
  std::vector<std::string> names;
  for (const DeviceInfo& device : known_devices()) {
    if (device.left_out.empty()) names.push_back(device.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// The number after the colon, or nothing if there is no colon.
std::optional<int> number_of(const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos) return {};
  const char* end = name.data() + name.size();
  int number = 0;
  const auto [stop, status] = std::from_chars(name.data() + colon + 1, end, number);
  if (status != std::errc() || stop != end || number < 0) {
    throw input_error(
        fmt::format("--device: {} has no GPU number after the colon; write {}:0 for the first",
                    quote(name), kind_of(name)));
  }
  return number;
}

std::unique_ptr<Device> make_gpu(const std::string& name, int local_rank) {
  const std::optional<int> number = number_of(name);
  const Gpus gpus = find_gpus(kind_of(name));
  if (!gpus.left_out.empty()) {
    throw input_error(
        fmt::format("--device {}: {}; there is: {}", name, gpus.left_out, those_there()));
  }
  const int count = static_cast<int>(gpus.descriptions.size());
  if (number && *number >= count) {
    throw input_error(
        fmt::format("--device {}: there is no such GPU; there is: {}", name, those_there()));
  }
  return gpus.module->make({number.value_or(local_rank % count)});
}

}  // namespace

std::vector<DeviceInfo> known_devices() {
  std::vector<DeviceInfo> devices{
      {"cpu", make_cpu_device()->description(), ""},
      {std::string(emulated_device), "takes the times that --costs gives; messages are real", ""}};
  for (const std::string& kind : gpu_kinds) {
    const Gpus gpus = find_gpus(kind);
    if (!gpus.left_out.empty()) devices.push_back({kind, "", gpus.left_out});
    for (std::size_t i = 0; i < gpus.descriptions.size(); ++i) {
      devices.push_back({fmt::format("{}:{}", kind, i), gpus.descriptions[i], ""});
    }
  }
  return devices;
}

bool names_a_gpu(const std::string& name) {
  return std::ranges::find(gpu_kinds, kind_of(name)) != gpu_kinds.end();
}

bool links_devices(const std::string& transport) {
  return transport == "nccl" || transport == "rccl";
}

const LinkLibrary& find_link_library(const std::string& transport) {
  const std::string kind = linked_kind(transport);
  return load_gpu_module(kind, module_folder(kind)).links();
}

void check_linked(const std::string& transport, const std::string& device) {
  const std::string kind = linked_kind(transport);
  if (names_a_gpu(device) && kind_of(device) == kind) return;
  throw input_error(fmt::format(
      "--transport {0}: it links devices of {1}, and {2} is none; give --device {1}, or leave "
      "--transport out",
      transport, kind, quote(device)));
}

void prepare_for_links() {
  // A GPU that waits for a message may not be able to load a kernel, and without it never reach
  // what the other rank waits for: all are loaded at the start.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  // A waiting stream must not block others: each gets its own queue.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  ::setenv("GPU_MAX_HW_QUEUES", "16", 0);  // the same for HIP
}

std::unique_ptr<Device> make_device(const std::string& name, int local_rank) {
  if (name == "cpu" || name == emulated_device) return make_cpu_device();
  if (names_a_gpu(name)) return make_gpu(name, local_rank);
  std::vector<std::string> names{"cpu", std::string(emulated_device)};
  names.insert(names.end(), gpu_kinds.begin(), gpu_kinds.end());
  throw input_error(fmt::format("--device: {}", unknown_name("device", name, names)));
}

std::string device_name(const std::string& name, int local_rank) {
  if (!names_a_gpu(name) || number_of(name)) return name;
  const Gpus gpus = find_gpus(kind_of(name));
  if (gpus.descriptions.empty()) return name;
  return fmt::format("{}:{}", name, local_rank % static_cast<int>(gpus.descriptions.size()));
}

}  // namespace pipesim::exec
