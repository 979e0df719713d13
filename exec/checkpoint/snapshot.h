// A rank's part of a checkpoint: named arrays of float32, or parts of them.
// A tensor in the file is named by its array's key and, unless it is the whole array, the numbers
// that it has (numbers.h): "layers.2.qkv.matrix.weight[0:4096]". One owner; a snapshot may be
// written by another thread than the one that takes it.
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
  Numbers numbers;              // of this part
  Slice slice;                  // of float32
};

class Snapshot {
 public:
  // Waits for the device. With `copies`, arrays may change at once; else, if the host can access
  // them, not until they are written.
  void take(Device& device, const std::vector<SavedArray>& arrays, bool copies);

  std::int64_t bytes() const { return bytes_; }
  // Writes them to a file of that name in the folder, and syncs it. Removes a partial file on
  // failure.
  CheckpointFile write(Disk& disk, const std::string& folder, const std::string& name) const;

 private:
  std::vector<TensorEntry> entries_;
  std::vector<std::span<const std::byte>> numbers_;
  std::vector<std::byte> copies_;  // kept for the next time
  std::int64_t bytes_ = 0;
};

}  // namespace pipesim::exec
