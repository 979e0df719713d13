#include "exec/model/staging.h"

#include <algorithm>

namespace pipesim::exec {

Staging::~Staging() {
  for (const auto& [size, blocks] : free_) {
    for (const Block& block : blocks) device_.release_host(block.memory);
  }
}

std::span<std::byte> Staging::take(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  std::vector<Block>& blocks = free_[size];
  const auto found = std::ranges::find_if(blocks, [&](const Block& block) {
    return !block.last_use || device_.has_passed(*block.last_use);
  });
  if (found == blocks.end()) return {static_cast<std::byte*>(device_.allocate_host(bytes)), size};
  std::byte* memory = found->memory;
  blocks.erase(found);
  return {memory, size};
}

void Staging::give_back(std::span<std::byte> block, std::optional<Mark> last_use) {
  free_[block.size()].push_back({block.data(), last_use});
}

void Staging::forget_marks() {
  for (auto& [size, blocks] : free_) {
    for (Block& block : blocks) block.last_use.reset();
  }
}

}  // namespace pipesim::exec
