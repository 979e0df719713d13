// The memory of an emulated GPU, and pinned memory of the host.
//
// Fresh memory is all 0xFF. Not for several threads at once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

namespace emulated_gpu {

// Of one GPU: a region of its own that nobody can touch unless it is open, as
// long as no more than 4 MiB are taken. There is a gap behind each allocation,
// in which nothing may be written; the address sanitizer reports what touches it,
// or what was freed.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t limit);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // Aligned to 256 bytes; null where there is no room left.
  void* allocate(std::size_t bytes);
  // False for what is no allocation.
  bool release(void* memory);

  bool has(const void* address) const;
  // Whether one allocation holds the range.
  bool holds(const void* from, std::size_t bytes) const;
  std::size_t left() const { return limit_ - used_; }

  void open();
  void close();
  // While open.
  bool was_written_beside() const;

 private:
  char* place_for(std::size_t bytes) const;
  char* place_from(char* first, std::size_t bytes) const;

  std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
  bool is_open_ = false;
  char* region_;
  std::size_t region_bytes_;
  char* next_;                           // where to look for room first
  char* touched_end_;                    // what lies behind was never handed out
  std::map<char*, std::size_t> blocks_;  // and their bytes
};

class PinnedMemory {
 public:
  void* allocate(std::size_t bytes);
  void release(void* memory);
  // Whether an allocation begins there.
  bool has(void* memory) const { return blocks_.contains(static_cast<char*>(memory)); }
  // Whether one allocation holds the range, or any has a part in it.
  bool holds(const void* from, std::size_t bytes) const;
  bool touches(const void* from, std::size_t bytes) const;
  // Of an allocation.
  std::size_t bytes(void* memory) const { return blocks_.at(static_cast<char*>(memory)).bytes; }

 private:
  struct Block {
    std::unique_ptr<char[]> room;
    std::size_t bytes;
  };
  std::map<char*, Block> blocks_;
};

}  // namespace emulated_gpu
