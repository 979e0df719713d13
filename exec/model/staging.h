// Host memory for messages on their way from and to a device's memory; blocks are reused.
// The device must outlive it. One rank, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

class Staging {
 public:
  explicit Staging(Device& device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::span<std::byte> take(std::int64_t bytes);
  // The block is reused once the device has passed `last_use`, if given.
  void give_back(std::span<std::byte> block, std::optional<Mark> last_use = {});
  // Call after the device has forgotten its marks: all count as passed.
  void forget_marks();

 private:
  struct Block {
    std::byte* memory = nullptr;
    std::optional<Mark> last_use;
  };

  Device& device_;
  std::map<std::size_t, std::vector<Block>> free_;  // by size
};

}  // namespace pipesim::exec
