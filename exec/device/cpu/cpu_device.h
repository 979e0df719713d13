// The CPU as a device: one thread, the calling rank's.
//
// The operators are compiled for several instruction sets; the best that this
// machine has is chosen when a device is made. GEMMs come from
// oneDNN if the build has it, else from the project's own kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

struct CpuOptions {
  std::string instructions;   // one of cpu_instruction_sets(); empty: the best
  bool own_products = false;  // always use the built-in GEMM
};

// Those in this build that this machine can run, the best first.
std::vector<std::string> cpu_instruction_sets();

// Call on the thread that will use it.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

}  // namespace pipesim::exec
