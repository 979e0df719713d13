// A device's numbers for a transport: in place if the host can access
// the device's memory, else a copy on the host.
// The numbers must outlive it. One rank, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/model/tensor.h"

namespace pipesim::exec {

class HostView {
 public:
  HostView(Device& device, const Slice& numbers);

  // The host's bytes; they stay in place when the view is moved.
  std::span<std::byte> bytes() const { return bytes_; }
  // Copy from the device, and back to it. Both block.
  void fetch();
  void put();

 private:
  Device* device_ = nullptr;
  void* there_ = nullptr;  // the device's numbers, if bytes_ is a copy
  std::vector<std::byte> copy_;
  std::span<std::byte> bytes_;
};

}  // namespace pipesim::exec
