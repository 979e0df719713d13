// A GPU as a device: one stream, on which operators run in the order of the calls,
// and one each for copies of messages to and from the host (streams.h).
//
// A rank's thread makes it and is the only one to call it. Ranks may share a
// GPU; each has its own streams and memory. GEMMs come from cuBLAS or
// hipBLAS if the build has it, else from the project's own kernel. Attention is
// the project's own, for bfloat16 on tensor cores if a CUDA GPU has them and
// heads have at most 128 numbers; description() tells. A runtime error
// becomes a work error that names the call.
#pragma once

#include <memory>

#include "exec/device/gpu/library.h"

namespace pipesim::exec {

class GpuMemory;
class Marks;

std::unique_ptr<Device> make_gpu_device(const GpuOptions& options);

// For links of such a device.
Marks& marks_of(Device& device);
GpuMemory& memory_of(Device& device);

}  // namespace pipesim::exec
