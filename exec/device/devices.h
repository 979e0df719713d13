// The devices that this build and this machine have, by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

// Takes the time that costs say, and computes nothing: buffers lie in the
// CPU's memory, and emulation.h stands in for stages.
inline constexpr std::string_view emulated_device = "emulated";

struct DeviceInfo {
  std::string name;         // as in --device
  std::string description;  // of one that is there
};
std::vector<DeviceInfo> known_devices();

// To be made on the thread that will use it. An unknown name is an input error
// that lists those that are there.
std::unique_ptr<Device> make_device(const std::string& name);

}  // namespace pipesim::exec
