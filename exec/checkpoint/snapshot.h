// A rank's part of a checkpoint: named arrays of float32, or parts of them.
//
// A tensor of the file is called by its array's key, and where it is not the whole array by the
// numbers that it has, too (numbers.h): "layers.2.qkv.matrix.weight[0:4096]". One owner; a
// snapshot may be written by another thread than the one that takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/disk.h"
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/numbers.h"
#include "exec/checkpoint/safetensors.h"
#include "exec/model/tensor.h"

namespace pipesim::exec {

struct SavedArray {
  std::string key;
  std::int64_t whole_size = 0;  // of the array
  Numbers numbers;              // that are here
  Slice slice;                  // of float32
};

class Snapshot {
 public:
  // Waits for the device. Where it `copies`, arrays may change at once; else, where the host
  // reaches them, not until it is written.
  void take(Device& device, const std::vector<SavedArray>& arrays, bool copies);

  std::int64_t bytes() const { return bytes_; }
  // Writes them to a file of that name in the folder, and syncs it. Where that fails, what is
  // there of it is removed.
  CheckpointFile write(Disk& disk, const std::string& folder, const std::string& name) const;

 private:
  std::vector<TensorEntry> entries_;
  std::vector<std::span<const std::byte>> numbers_;
  std::vector<std::byte> copies_;  // kept for the next time
  std::int64_t bytes_ = 0;
};

}  // namespace pipesim::exec
