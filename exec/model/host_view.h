// A device's numbers for a transport: in place if the host can access
// the device's memory, else a copy on the host.
//
// The numbers outlive it. One rank, one thread.
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

  // Where they are; moving the view leaves them there.
  std::span<std::byte> bytes() const { return bytes_; }
  // Makes them what the device has, and the other way round. Both wait.
  void fetch();
  void put();

 private:
  Device* device_ = nullptr;
  void* there_ = nullptr;  // the numbers, where they are a copy
  std::vector<std::byte> copy_;
  std::span<std::byte> bytes_;
};

}  // namespace pipesim::exec
