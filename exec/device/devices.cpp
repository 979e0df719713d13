#include "exec/device/devices.h"

#include <fmt/format.h>

#include "exec/device/cpu/cpu_device.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

std::vector<DeviceInfo> known_devices() {
  return {{"cpu", make_cpu_device()->description()},
          {std::string(emulated_device), "takes the time that --costs says; messages are real"}};
}

std::unique_ptr<Device> make_device(const std::string& name) {
  if (name == "cpu" || name == emulated_device) return make_cpu_device();
  std::vector<std::string> names;
  for (const DeviceInfo& device : known_devices()) names.push_back(device.name);
  throw input_error(fmt::format("--device: {}", unknown_name("device", name, names)));
}

}  // namespace pipesim::exec
