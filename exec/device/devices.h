// The devices that this build and this machine have, by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/link.h"

namespace pipesim::exec {

// Takes the time of its costs, and computes nothing: buffers are in the CPU's memory, and
// emulation.h replaces stages.
inline constexpr std::string_view emulated_device = "emulated";

struct DeviceInfo {
  std::string name;         // as in --device
  std::string description;  // if available
  std::string left_out;     // why it isn't available, or empty
};
// Each GPU, as cuda:0; a kind without any once, as cuda.
std::vector<DeviceInfo> known_devices();

// Whether this name is a GPU's, present or not: a kind, alone or as in cuda:1.
bool names_a_gpu(const std::string& name);

// Call on the thread that will use it. For a kind without a number, ranks on one host take its GPUs
// in turn, by `local_rank`, their number within the host. Throws an input error for an unknown or
// unavailable device, which lists the available ones.
std::unique_ptr<Device> make_device(const std::string& name, int local_rank = 0);
// That device's own name, with its number: "cuda:1".
std::string device_name(const std::string& name, int local_rank);

// Whether a transport of this name links devices: nccl CUDA's, rccl HIP's.
bool links_devices(const std::string& transport);
// The factory of its links; throws a work error if there is none.
const LinkLibrary& find_link_library(const std::string& transport);
// Throws an input error unless the transport links that device.
void check_linked(const std::string& transport, const std::string& device);
// Settings for linked GPUs. Call before any query about GPUs, and while the process has one thread:
// it changes the environment.
void prepare_for_links();

}  // namespace pipesim::exec
