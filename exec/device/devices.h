// The devices that this build and this machine have, by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/link.h"

namespace pipesim::exec {

// Takes the time that costs say, and computes nothing: buffers lie in the
// CPU's memory, and emulation.h stands in for stages.
inline constexpr std::string_view emulated_device = "emulated";

struct DeviceInfo {
  std::string name;         // as in --device
  std::string description;  // of one that is there
  std::string left_out;     // why it isn't there, or empty
};
// GPUs one by one, as cuda:0; a kind of which there is none once, as cuda.
std::vector<DeviceInfo> known_devices();

// Whether this name is a GPU's, present or not: a kind, alone or as in cuda:1.
bool names_a_gpu(const std::string& name);

// To be made on the thread that will use it. Of the GPUs of a kind without a
// number, ranks of one host take them by turns: the one of `local_rank`, their
// number within the host. An unknown name, or a device that isn't there, is an
// input error that lists those that are.
std::unique_ptr<Device> make_device(const std::string& name, int local_rank = 0);
// That device's own name, with its number: "cuda:1".
std::string device_name(const std::string& name, int local_rank);

// Whether a transport of this name links devices: nccl CUDA's, rccl HIP's.
bool links_devices(const std::string& transport);
// The factory of its links; a work error says why there is none.
const LinkLibrary& find_link_library(const std::string& transport);
// An input error unless that device is one that it links.
void check_linked(const std::string& transport, const std::string& device);
// What GPUs that are linked need. Before anything is asked about GPUs, and while
// the process has one thread: it changes the environment.
void prepare_for_links();

}  // namespace pipesim::exec
