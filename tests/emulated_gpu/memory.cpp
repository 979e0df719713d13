#include "tests/emulated_gpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/address_sanitizer.h"

namespace emulated_gpu {
namespace {

constexpr int poison_byte = 0xFF;
constexpr std::size_t step = 256;  // alignment, and the least gap
// Closing more pages takes longer than the kernels of tests.
constexpr std::size_t max_guarded = std::size_t{4} << 20;

// What an allocation takes up, with its gap.
std::size_t room_for(std::size_t bytes) { return (bytes + step - 1) / step * step + step; }

// The allocation that begins last at or before that address.
template <typename Map>
auto block_at(const Map& blocks, const void* address) {
  const auto after = blocks.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  return after == blocks.begin() ? blocks.end() : std::prev(after);
}

bool is_within(const char* block, std::size_t block_bytes, const void* from, std::size_t bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(from) - block);
  return offset <= block_bytes && bytes <= block_bytes - offset;
}

// Of a gap. By memcmp it would be seen as a kernel's access.
PIPESIM_UNWATCHED bool is_poisoned(const char* from, const char* end) {
  while (from != end && *from == static_cast<char>(poison_byte)) ++from;
  return from == end;
}

}  // namespace

// ---- The GPU's

// Twice the limit, so that what is left isn't too scattered.
DeviceMemory::DeviceMemory(std::size_t limit)
    : limit_(limit / step * step), region_bytes_(2 * limit_ + (std::size_t{1} << 20)) {
  void* memory =
      ::mmap(nullptr, region_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  region_ = static_cast<char*>(memory);
  next_ = region_ + step;
  touched_end_ = next_;
  open();
  std::memset(region_, poison_byte, step);  // the gap before the first
  close();
  forbid(region_, step);
}

DeviceMemory::~DeviceMemory() {
  permit(region_, static_cast<std::size_t>(touched_end_ - region_));
  ::munmap(region_, region_bytes_);
}

void DeviceMemory::open() {
  if (!is_open_) ::mprotect(region_, region_bytes_, PROT_READ | PROT_WRITE);
  is_open_ = true;
}

void DeviceMemory::close() {
  if (most_used_ > max_guarded) return;
  ::mprotect(region_, region_bytes_, PROT_NONE);
  is_open_ = false;
}

char* DeviceMemory::place_from(char* first, std::size_t bytes) const {
  for (auto block = blocks_.lower_bound(first); block != blocks_.end(); ++block) {
    if (static_cast<std::size_t>(block->first - first) >= bytes) return first;
    first = block->first + room_for(block->second);
  }
  return static_cast<std::size_t>(region_ + region_bytes_ - first) >= bytes ? first : nullptr;
}

// Behind what was handed out last, so that what is free stays free for a while.
char* DeviceMemory::place_for(std::size_t bytes) const {
  char* place = place_from(next_, bytes);
  return place != nullptr ? place : place_from(region_ + step, bytes);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > limit_ || room_for(bytes) - step > left()) return nullptr;
  const std::size_t room = room_for(bytes);
  char* place = place_for(room);
  if (place == nullptr) return nullptr;
  open();
  permit(place, room);
  std::memset(place, poison_byte, room);
  forbid(place + bytes, room - bytes);
  close();
  blocks_.emplace(place, bytes);
  used_ += room - step;
  most_used_ = std::max(most_used_, used_);
  next_ = place + room;
  touched_end_ = std::max(touched_end_, next_);
  return place;
}

bool DeviceMemory::release(void* memory) {
  const auto block = blocks_.find(static_cast<char*>(memory));
  if (block == blocks_.end()) return false;
  open();
  std::memset(block->first, poison_byte, block->second);
  forbid(block->first, block->second);
  close();
  used_ -= room_for(block->second) - step;
  blocks_.erase(block);
  return true;
}

bool DeviceMemory::has(const void* address) const {
  return is_within(region_, region_bytes_, address, 0);
}

bool DeviceMemory::holds(const void* from, std::size_t bytes) const {
  const auto block = block_at(blocks_, from);
  return block != blocks_.end() && is_within(block->first, block->second, from, bytes);
}

bool DeviceMemory::was_written_beside() const {
  if (!is_poisoned(region_, region_ + step)) return true;
  return !std::ranges::all_of(blocks_, [](const auto& block) {
    return is_poisoned(block.first + block.second, block.first + room_for(block.second));
  });
}

// ---- The host's

void* PinnedMemory::allocate(std::size_t bytes) {
  auto room = std::make_unique<char[]>(bytes + step);
  const std::size_t start = reinterpret_cast<std::uintptr_t>(room.get()) % step;
  char* memory = room.get() + (step - start);
  std::memset(memory, poison_byte, bytes);
  forbid(room.get(), step - start);
  forbid(memory + bytes, start);
  blocks_.emplace(memory, Block{std::move(room), bytes});
  return memory;
}

void PinnedMemory::release(void* memory) { blocks_.erase(static_cast<char*>(memory)); }

bool PinnedMemory::holds(const void* from, std::size_t bytes) const {
  const auto block = block_at(blocks_, from);
  return block != blocks_.end() && is_within(block->first, block->second.bytes, from, bytes);
}

bool PinnedMemory::touches(const void* from, std::size_t bytes) const {
  const auto* first = static_cast<const char*>(from);
  return std::ranges::any_of(blocks_, [&](const auto& block) {
    return first < block.first + block.second.bytes && block.first < first + bytes;
  });
}

}  // namespace emulated_gpu
