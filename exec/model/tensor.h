// A rank's memory: blocks of its device, handed out as tensors and counted by use.
// The pool must outlive its tensors. Freed blocks are kept for tensors of the same size, so nothing
// is allocated after the first iteration. One rank, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "exec/device/device.h"
#include "traces/memory.h"

namespace pipesim::exec {

// The use of memory; the categories of METRICS.md.
enum class Use : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,  // of layers, and the gradients that pass through a backward
  residue,      // what W needs after I
  send_buffer,
  receive_buffer,
  unsharded,  // weights gathered from replicas
  workspace,  // gradients until they are reduced, and parts of them from replicas
};
inline constexpr std::size_t use_count = 9;

// Bytes by use.
struct UsedBytes {
  std::array<std::int64_t, use_count> by_use{};

  std::int64_t& operator[](Use use) { return by_use[static_cast<std::size_t>(use)]; }
  std::int64_t operator[](Use use) const { return by_use[static_cast<std::size_t>(use)]; }
  std::int64_t total() const;
  StateBytes states() const;
  WorkingBytes working() const;
};

class Pool;

// How many float32 are needed to hold so many bytes.
constexpr std::int64_t floats_for(std::int64_t bytes) { return (bytes + 3) / 4; }

// Numbers within a tensor; owns nothing.
class Slice {
 public:
  Slice() = default;
  Slice(void* data, std::int64_t size, Number type) : data_(data), size_(size), type_(type) {}

  Array data() const { return {data_, type_}; }
  // Null unless the type is float32.
  float* floats() const { return type_ == Number::float32 ? static_cast<float*>(data_) : nullptr; }
  void* memory() const { return data_; }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * bytes_of(type_); }
  bool empty() const { return data_ == nullptr; }
  // `size` numbers from `first` on.
  Slice part(std::int64_t first, std::int64_t size) const {
    return {static_cast<std::byte*>(data_) + first * bytes_of(type_), size, type_};
  }

 private:
  void* data_ = nullptr;
  std::int64_t size_ = 0;
  Number type_ = Number::float32;
};

// `size` numbers on the device. Owns its block; moved, not copied.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  Array data() const { return {data_, type_}; }
  // Null unless the type is float32.
  float* floats() const { return type_ == Number::float32 ? static_cast<float*>(data_) : nullptr; }
  void* memory() const { return data_; }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * bytes_of(type_); }
  bool empty() const { return data_ == nullptr; }
  Slice all() const { return {data_, size_, type_}; }

  // Counts it under another use from now on.
  void serve_as(Use use);

 private:
  friend class Pool;
  Pool* pool_ = nullptr;
  void* data_ = nullptr;
  std::int64_t size_ = 0;
  Number type_ = Number::float32;
  Use use_ = Use::activations;
};

class Pool {
 public:
  explicit Pool(Device& device) : device_(device) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Device& device() const { return device_; }

  // Uninitialized.
  Tensor take(std::int64_t size, Use use, Number type = Number::float32);
  // Counts bytes, or fewer if negative, without allocating.
  void charge(Use use, std::int64_t bytes) { count(use, bytes); }

  const UsedBytes& used() const { return used_; }
  // At the fullest instant so far; the first of several.
  const UsedBytes& peak() const { return peak_; }
  // Starts the peak over from the current use.
  void reset_peak() { peak_ = used_; }

 private:
  friend class Tensor;
  void count(Use use, std::int64_t bytes);
  void give_back(void* data, std::int64_t bytes, Use use);

  Device& device_;
  std::map<std::int64_t, std::vector<void*>> free_;  // by bytes
  UsedBytes used_;
  UsedBytes peak_;
};

}  // namespace pipesim::exec
